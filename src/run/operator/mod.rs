//! Operators: users other than root that enter a shield and leave it. `request` has what they ask
//! and the answers, `serve` is the helper that runs as root for one request.

mod request;
mod serve;

pub use request::{
    EnteredShield, OPERATOR_COMMAND, OPERATOR_SOCKET, OPERATOR_TIMEOUT, OperatorAnswer,
    OperatorRefusal, OperatorRequest, sudoers_line,
};
pub use serve::serve_operator;
