//! Operators: users other than root that enter a shield and leave it. `request` has what they ask
//! and the answers, `serve` is the helper that runs as root for one request, `asker` has the
//! processes of a request, `rights` what they get with their place, and `sudoers` the line with
//! which sudo permits the helper.

mod asker;
mod request;
mod rights;
mod serve;
mod sudoers;

pub use request::{
    EnteredShield, OPERATOR_COMMAND, OPERATOR_SHIELD, OPERATOR_TIMEOUT, OperatorAnswer,
    OperatorRefusal, OperatorRequest, operator_socket,
};
pub use serve::{HelperCaller, serve_operator};
pub use sudoers::{ReplaceableFile, SudoersRefusal, check_root_file, sudoers_line};
