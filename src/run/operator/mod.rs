//! Operators: users other than root that enter a shield and leave it. `request` has what they ask
//! and the answers, `serve` is the helper that runs as root for one request, `asker` has the
//! processes of a request, and `rights` what they get with their place.

mod asker;
mod request;
mod rights;
mod serve;

pub use request::{
    EnteredShield, OPERATOR_COMMAND, OPERATOR_SHIELD, OPERATOR_TIMEOUT, OperatorAnswer,
    OperatorRefusal, OperatorRequest, operator_socket, sudoers_line,
};
pub use serve::{HelperCaller, serve_operator};
