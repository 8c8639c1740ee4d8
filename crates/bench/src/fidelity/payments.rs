//! Domain `payments` of the fidelity bench: a simulated service, and the script of the agent that uses it. An open
//! invoice is charged, and gets a receipt, or a review if the amount is large; the charge of a paid one is refunded.

use serde_json::{Value, json};

use super::{
    agent::Agent,
    service::{Domain, Tables, error, is_listed, missing},
};

pub(super) const PAYMENTS: Domain = Domain { name: "payments", cases: 12, tables, serve, script };

const AMOUNTS: [f64; 12] = [19.99, 49.99, 120.0, 480.0, 501.5, 750.0, 33.0, 20.5, 300.0, 99.0, 1_200.0, 60.0];

fn amount(case: u32) -> f64 {
    AMOUNTS.get(case as usize % AMOUNTS.len()).copied().unwrap_or(10.5)
}

fn tables(case: u32) -> Tables {
    let status = match case % 4 {
        3 => "paid",
        2 if case == 6 => "void",
        _ => "open",
    };
    // One customer has too little.
    let balance = if case == 8 { 100.0 } else { 5_000.0 };
    let mut tables = Tables::default()
        .with("invoices", "inv_1", json!({"id": "inv_1", "status": status, "amount": amount(case)}))
        .with("customers", "cus_1", json!({"id": "cus_1", "balance": balance}));
    for n in 0..case % 7 {
        let id = format!("ch_{n}");
        tables.put(
            "charges",
            &id,
            json!({"id": id, "status": "succeeded", "amount": amount(case), "invoice": "inv_0"}),
        );
    }
    if status == "paid" {
        let refunded = if case == 11 { "refunded" } else { "succeeded" };
        tables.put(
            "charges",
            "ch_x",
            json!({"id": "ch_x", "status": refunded, "amount": amount(case), "invoice": "inv_1"}),
        );
    }
    tables
}

fn serve(tables: &mut Tables, tool: &str, args: &Value) -> Value {
    match tool {
        "get_invoice" => tables.read("invoices", &args["id"]),
        "get_charge" => tables.read("charges", &args["id"]),
        "get_balance" => tables.read("customers", &args["customer"]),
        "list_charges" => tables.page("charges", args),
        "create_charge" => {
            let amount = args["amount"].as_f64().unwrap_or_default();
            let Some(customer) = tables.find_mut("customers", &args["customer"]) else { return missing() };
            let balance = customer["balance"].as_f64().unwrap_or_default();
            if amount > balance {
                return error("card_declined");
            }
            let status = if amount > 500.0 { "requires_review" } else { "succeeded" };
            if status == "succeeded" {
                customer["balance"] = json!(balance - amount);
            }
            let id = tables.mint("ch_");
            tables.put(
                "charges",
                &id,
                json!({"id": id, "status": status, "amount": amount, "invoice": args["invoice"]}),
            )
        }
        "refund" => {
            let Some(charge) = tables.find_mut("charges", &args["charge"]) else { return missing() };
            if charge["status"] == "refunded" {
                return error("already_refunded");
            }
            charge["status"] = json!("refunded");
            let amount = charge["amount"].as_f64().unwrap_or_default();
            if let Some(customer) = tables.find_mut("customers", &json!("cus_1")) {
                customer["balance"] = json!(customer["balance"].as_f64().unwrap_or_default() + amount);
            }
            json!({"id": tables.mint("re_"), "charge": args["charge"], "status": "refunded", "amount": amount})
        }
        "send_receipt" => json!({"number": tables.mint("rc-"), "charge": args["charge"]}),
        "open_review" => json!({"id": tables.mint("rv_"), "state": "open"}),
        _ => error("unknown_tool"),
    }
}

fn script(agent: &mut Agent<'_>, _: u32) {
    let invoice = agent.call("get_invoice", json!({"id": "inv_1"}));
    let amount = invoice["amount"].clone();
    match agent.on("the invoice", &invoice["status"]).as_str() {
        "open" => {
            let wanted = json!({"invoice": "inv_1", "customer": "cus_1", "amount": amount});
            let charge = agent.call("create_charge", wanted);
            if agent.is("the charge is refused", charge["error"].is_object()) {
                agent.on("why", &charge["error"]["code"]);
                return;
            }
            match agent.on("the charge", &charge["status"]).as_str() {
                "succeeded" => {
                    let read = agent.call("get_charge", json!({"id": charge["id"]}));
                    agent.is("it is as much as was asked for", read["amount"] == amount);
                    let receipt = agent.call("send_receipt", json!({"charge": charge["id"], "to": "a@example.com"}));
                    agent.is("the receipt has a number", receipt["number"].is_string());
                }
                "requires_review" => {
                    let review = agent.call("open_review", json!({"charge": charge["id"], "why": "large"}));
                    agent.on("the review", &review["state"]);
                }
                _ => {}
            }
            is_listed(agent, "list_charges", "id", &charge["id"]);
        }
        "paid" => {
            let before = agent.call("get_balance", json!({"customer": "cus_1"}))["balance"].clone();
            let refund = agent.call("refund", json!({"charge": "ch_x", "amount": amount, "reason": "paid twice"}));
            if agent.is("the refund is refused", refund["error"].is_object()) {
                agent.on("why", &refund["error"]["code"]);
                return;
            }
            agent.on("the refund", &refund["status"]);
            agent.is("it is all of it", refund["amount"] == amount);
            let charge = agent.call("get_charge", json!({"id": "ch_x"}));
            agent.on("the charge is now", &charge["status"]);
            let after = agent.call("get_balance", json!({"customer": "cus_1"}))["balance"].clone();
            agent.is("the balance has risen", after.as_f64() > before.as_f64());
        }
        _ => {}
    }
}
