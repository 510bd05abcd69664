//! The man page of the policy file, from `docs/policy.md`: one text for both.

use super::roff::{FILES, date, roff};
use cpushield::workflow::explained_page::POLICY;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::fs;
use std::io;
use std::path::Path;

/// Writes `cpushield-policy.5`.
pub fn write(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("cpushield-policy.5"), page())
}

fn page() -> String {
    let mut text = format!(
        ".TH cpushield-policy 5 \"{}\" \"cpushield {}\" \"File Formats\"\n\
         .SH NAME\ncpushield\\-policy \\- the policy file of cpushield\n.SH DESCRIPTION\n",
        date(),
        env!("CARGO_PKG_VERSION")
    );
    let mut writer = RoffWriter::default();
    // The first heading is the title.
    let body = POLICY.split_once('\n').map_or(POLICY, |(_, body)| body);
    Parser::new_ext(body, Options::ENABLE_TABLES).for_each(|event| writer.add(&event));
    text.push_str(&writer.text);
    text + FILES
}

/// What the events of a document become. It knows paragraphs, code blocks, headings and tables of
/// two columns.
#[derive(Debug, Default)]
struct RoffWriter {
    text: String,
    is_code: bool,
    is_table_head: bool,
}

impl RoffWriter {
    fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(Tag::Paragraph) => self.text.push_str(".PP\n"),
            Event::Start(Tag::Heading { .. }) => self.text.push_str(".SH "),
            Event::Start(Tag::CodeBlock(_)) => {
                self.text.push_str(".PP\n.nf\n.RS\n");
                self.is_code = true;
            }
            Event::End(TagEnd::CodeBlock) => {
                self.text.push_str(".RE\n.fi\n");
                self.is_code = false;
            }
            Event::Start(Tag::TableHead) => self.is_table_head = true,
            Event::End(TagEnd::TableHead) => self.is_table_head = false,
            Event::Start(Tag::TableRow) => self.text.push_str(".TP\n"),
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::TableCell)
                if !self.is_table_head =>
            {
                self.text.push('\n');
            }
            Event::SoftBreak => self.text.push('\n'),
            Event::Code(code) if !self.is_table_head => {
                self.text.push_str(&format!("\\fB{}\\fP", roff(code)));
            }
            Event::Text(words) if !self.is_table_head => {
                let lines: Vec<String> = words.lines().map(roff).collect();
                self.text.push_str(&lines.join("\n"));
                if self.is_code {
                    self.text.push('\n');
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::not_run;
    use std::process::Command;

    #[test]
    fn groff_reads_the_page_without_a_warning() {
        let dir =
            std::env::temp_dir().join(format!("cpushield-policy-page-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        write(&dir).unwrap();
        let file = dir.join("cpushield-policy.5");
        let groff = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(&file).output();
        let page = fs::read_to_string(&file).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert!(page.contains(".TP\n\\fBcount\\fP\n"), "{page}");
        match groff {
            Ok(groff) => {
                let warnings = String::from_utf8_lossy(&groff.stderr);
                assert!(warnings.is_empty(), "{warnings}");
            }
            Err(error) => not_run(&format!("groff: {error}")),
        }
    }
}
