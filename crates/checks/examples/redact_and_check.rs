//! Redacts a text that an agent wrote, and prints what the checks find in it:
//! `cargo run -p umbra-checks --example redact_and_check`.

use umbra_domain::{CheckName, Event};

fn main() {
    let text = "Migrated postgres://app:Tr0ub4dor-3x@db.acme.io/orders, then ran:\n$ sudo rm -rf /var/lib/postgresql";
    println!("{}\n", umbra_checks::redact(text).as_str());

    // The field decides which checks read a text: this one is the agent's output.
    let event = Event { agent: "deployer".to_owned(), output: Some(text.to_owned()), ..Event::default() };
    let screened = umbra_checks::screen(event);
    for hit in umbra_checks::review(&screened.event, &screened.marks, &CheckName::ALL.into()) {
        let (severity, check) = (hit.severity.as_str(), hit.check.as_str());
        println!("{severity}: {check}/{} in {}, bytes {}..{}", hit.rule, hit.field, hit.start, hit.end);
        println!("    {}", hit.description);
    }
}
