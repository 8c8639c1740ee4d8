//! Table of the signs that derive triggers, in addition to forms of code and findings of the checks.

use umbra_analysis::shell::Purpose;
use umbra_domain::Trigger;

/// One row: a sign, the trigger that it derives, and the reason.
#[derive(Debug)]
pub(super) struct SignRow {
    pub(super) trigger: Trigger,
    pub(super) sign: Sign,
    /// Reason, as one sentence.
    pub(super) why: &'static str,
}

/// Sign of a kind of action in an event.
#[derive(Debug)]
pub(super) enum Sign {
    /// A call of a program with this purpose, in any command of the event.
    Purpose(Purpose),
    /// Words of the tool's own name, one of each list; with a `service`, also a word of the whole name with the
    /// server's.
    Tool { verbs: &'static str, objects: &'static str, service: &'static str },
    /// Status of an event without a tool call, in upper or lower case.
    LastStatus(&'static str),
    /// Stop reason of an event without a tool call, in upper or lower case.
    LastStop(&'static str),
    /// Exit code of the tool's program other than 0.
    ExitCode,
    /// Beginning of a line in the result of a tool that runs code, or in the last block of the output.
    Traceback(&'static str),
}

const fn row(trigger: Trigger, sign: Sign, why: &'static str) -> SignRow {
    SignRow { trigger, sign, why }
}

/// Row for a tool that pays, or sends data to the outside.
const fn tool(verbs: &'static str, objects: &'static str, service: &'static str, why: &'static str) -> SignRow {
    row(Trigger::SecurityRisk, Sign::Tool { verbs, objects, service }, why)
}

const fn traceback(begins: &'static str, why: &'static str) -> SignRow {
    row(Trigger::Error, Sign::Traceback(begins), why)
}

const PAYS: &str = "The tool pays or moves money.";
const SENDS: &str = "The tool sends a message to outside.";

/// Every row; the first match gives the reason.
pub(super) const ROWS: &[SignRow] = &[
    row(Trigger::SecurityRisk, Sign::Purpose(Purpose::ReadsSecret), "A command reads a store of secrets."),
    row(Trigger::SecurityRisk, Sign::Purpose(Purpose::WritesSecret), "A command writes to a store of secrets."),
    row(Trigger::SecurityRisk, Sign::Purpose(Purpose::ChangesInfrastructure), "A command changes infrastructure."),
    tool("pay charge refund transfer wire", "money funds card customer invoice bill payment order balance", "", PAYS),
    tool(
        "create make send issue process submit execute initiate schedule capture confirm approve retry",
        "payment payments payout payouts charge charges refund refunds transfer transfers remittance",
        "",
        PAYS,
    ),
    tool("place submit buy purchase sell checkout", "order orders stock stocks shares cart ticket tickets", "", PAYS),
    tool("send forward reply deliver", "email emails mail mails gmail sms mms fax newsletter letter", "", SENDS),
    tool("post publish send create", "tweet tweets toot skeet webhook", "", SENDS),
    tool(
        "send post reply publish",
        "message messages dm chat text notification",
        "slack discord telegram whatsapp teams twilio signal messenger linkedin facebook instagram twitter x sendgrid mailgun ses outlook",
        SENDS,
    ),
    row(Trigger::Error, Sign::ExitCode, "The tool's program ended with an exit code other than 0."),
    traceback("Traceback (most recent call last):", "A Python traceback was printed."),
    traceback("Exception in thread \"", "A Java program ended with an exception."),
    traceback("panic: ", "A Go program panicked."),
    traceback("thread 'main' panicked at ", "A Rust program panicked."),
    traceback("Uncaught ", "A JavaScript program ended with an exception."),
    traceback("    at Object.<anonymous> (", "A JavaScript program ended with an exception."),
    traceback("    at Module._compile (", "A JavaScript program ended with an exception."),
    traceback("PHP Fatal error: ", "A PHP program ended with a fatal error."),
    traceback("Fatal error: Uncaught ", "A PHP program ended with a fatal error."),
    traceback("Unhandled exception. ", "A .NET program ended with an exception."),
    traceback("Segmentation fault", "A program crashed."),
    row(Trigger::TaskComplete, Sign::LastStatus("completed"), "The status says that the task was completed."),
    row(Trigger::TaskComplete, Sign::LastStop("end_turn"), "The model ended its turn without a further tool call."),
];
