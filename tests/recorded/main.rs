//! Tests on recorded machines, synthetic machines and files. They measure nothing and change
//! nothing on the machine that runs them; `tests/live/` does.

mod book;
mod boot;
mod cli;
mod document_screens;
mod experiment;
mod install;
mod lint;
mod machines;
mod minimize;
mod other_tools;
mod plans;
mod roundtrip;
mod schema;
mod survey;
mod survey_cost;
mod tidy;
mod written_files;

#[path = "../support/documents.rs"]
mod documents;
#[path = "../support/empty_latency.rs"]
mod empty_latency;
#[path = "../support/files.rs"]
mod files;
#[path = "../support/not_run.rs"]
mod not_run;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/python.rs"]
mod python;
#[path = "../support/recordings.rs"]
mod recordings;
#[path = "../support/schemas.rs"]
mod schemas;
#[path = "../support/screen.rs"]
mod screen;
#[path = "../support/shared_data.rs"]
mod shared_data;
#[path = "../support/simulated_experiment.rs"]
mod simulated_experiment;
