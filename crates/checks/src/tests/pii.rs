//! Tests of personal data: rule and exact place of each finding, and look-alikes that are not personal data.

use umbra_domain::{CheckName, Event, Severity, ToolCall};

use super::{hits, saying};

/// Returns rule and text of each hit of at least a warning.
fn seen(text: &str) -> Vec<(String, String)> {
    let hits = hits(saying(text), CheckName::Pii);
    hits.into_iter()
        .filter(|hit| hit.severity >= Severity::Warning)
        .map(|hit| (hit.rule, text[hit.start..hit.end].to_owned()))
        .collect()
}

#[test]
fn personal_data_is_found_with_its_exact_span() {
    for (text, rule, value) in [
        ("Write to marta.kowal@poczta.pl about it.", "email", "marta.kowal@poczta.pl"),
        ("Kontakt: jörg.maier@web.de.", "email", "jörg.maier@web.de"),
        ("Her card 4539 5787 6362 1486 was charged.", "credit_card", "4539 5787 6362 1486"),
        ("paid with 371144371144376 yesterday", "credit_card", "371144371144376"),
        ("debit card: 6759649826438453", "credit_card", "6759649826438453"),
        ("Wire it to DE75512108001245126199 today", "iban", "DE75512108001245126199"),
        ("iban nl02 abna 0123 4567 89", "iban", "nl02 abna 0123 4567 89"),
        ("SSN 536-22-8714 on file", "us_ssn", "536-22-8714"),
        ("social security number is 536228714.", "us_ssn", "536228714"),
        ("BSN: 111222333", "nl_bsn", "111222333"),
        ("DNI 54362315-K", "es_dni", "54362315-K"),
        ("NIE: X2482300W", "es_dni", "X2482300W"),
        ("codice fiscale BNCLRA90A41F205I", "it_codice_fiscale", "BNCLRA90A41F205I"),
        ("NHS number: 943 476 5919", "uk_nhs", "943 476 5919"),
        ("NINO: JM 40 24 25 C", "uk_nino", "JM 40 24 25 C"),
        ("PESEL: 44051401359", "pl_pesel", "44051401359"),
        ("cliente 529.982.247-25 ativo", "br_cpf", "529.982.247-25"),
        ("Aadhaar no. 2341 2341 2346", "in_aadhaar", "2341 2341 2346"),
        ("Steuer-ID 86095742719", "de_tax_id", "86095742719"),
        ("social insurance number 130 692 544", "ca_sin", "130 692 544"),
        ("TFN: 876543210", "au_tfn", "876543210"),
        ("personnummer: 811218-9876", "se_personnummer", "811218-9876"),
        ("TC kimlik 10000000146", "tr_kimlik", "10000000146"),
        ("NRIC S1234567D", "sg_nric", "S1234567D"),
        ("AHV 756.9217.0769.85", "ch_ahv", "756.9217.0769.85"),
        ("Call me at (415) 736-2290 tonight", "phone_number", "(415) 736-2290"),
        ("reach her on +49 30 901820", "phone_number", "+49 30 901820"),
        ("Phone:\n812 4475", "phone_number", "812 4475"),
        ("Tel. 01 42 68 53 00", "phone_number", "01 42 68 53 00"),
        ("手机 13912345678", "phone_number", "13912345678"),
        ("(212) 736-3100x0135", "phone_number", "(212) 736-3100x0135"),
        ("driver's license number is D4478812", "driving_licence", "D4478812"),
        ("Passport no: C03005988", "passport", "C03005988"),
        ("my ip is blocked, my address 91.198.174.192 is", "ip_address", "91.198.174.192"),
        ("PAN: BKZPM4821R", "in_pan", "BKZPM4821R"),
        ("SVNr. 7805 281075 liegt vor", "at_svnr", "7805 281075"),
        ("codice fiscale: RSSMRA85T10A562S", "it_codice_fiscale", "RSSMRA85T10A562S"),
        ("NIR : 2 55 08 14 168 025 38", "fr_nir", "2 55 08 14 168 025 38"),
        ("her id card is 34052419800101001X", "cn_resident_id", "34052419800101001X"),
        ("карта 2200 1234 5678 9019 выпущена", "credit_card", "2200 1234 5678 9019"),
        ("Routing number 011401533, account no. 7750014482.", "us_bank_account", "7750014482"),
        ("RUT 12.678.579-8", "cl_rut", "12.678.579-8"),
        ("DNI 27.483.192", "ar_dni", "27.483.192"),
        ("IMEI: 352099001761481", "imei", "352099001761481"),
        ("US passport 571934628 on file", "passport", "571934628"),
        ("Reisepass-Nr. C4VN7L2K9", "passport", "C4VN7L2K9"),
        ("Account number 48291037, sort code 20-45-91", "uk_bank_account", "48291037"),
        ("sort code: 204591, account no: 48291037.", "uk_bank_account", "48291037"),
        ("Patient: Maria van Lopez\n", "person_name", "Maria van Lopez"),
    ] {
        assert!(seen(text).contains(&(rule.to_owned(), value.to_owned())), "{text}: {:?}", seen(text));
    }
}

#[test]
fn look_alikes_of_personal_data_give_no_hit() {
    for text in [
        "Use 4111 1111 1111 1111 in the sandbox.",
        "card 4539 5787 6362 1487 is mistyped",
        "Mail info@acme.io or noreply@acme.io.",
        "git clone git@github.com:acme/site.git",
        "ssh deploy@build.acme.io uptime",
        "npm i lodash@4.17.21 and image@2x.png",
        "See jane@example.com and bob@test.local.",
        "Co-authored-by: Ann Lee <ann.lee@acme.io>",
        "Released 2024-02-28 12:30:45, build 20240228123045.",
        "commit 4f2a9c1e7d6b5a4938271605f4e3d2c1b0a99887",
        "id: 550e8400-e29b-41d4-a716-446655440000",
        "The order 4539578763621486 shipped.",
        "It listens on 10.0.0.12 and 8.8.8.8 answers.",
        "ping 91.198.174.192",
        "version 12.4.1.2207 of 1234567 rows",
        "DE75512108001245126198 has a wrong check digit",
        "call 555-0142 in the script",
        "SSN 000-12-3456 and 987-65-4321 are never issued",
        "BSN: 123456789",
        "Find files bigger than 1048576 bytes among 35 53 102 342.",
        "x = [1000, 2000, 3000, 4000]",
        "π is 3.14159265358979",
        "My passport expires next week.",
        "The patient was discharged.",
        "port 8080, pid 1234567, timestamp 1700000000000",
        "{\"id\": 4539578763621486, \"parent_id\": 4539578763621486, \"itemId\": 4539578763621486}",
        "poison control 1-800-222-1222",
        "released 1.800.555.1234-rc1",
        "RUT 12.678.579-7 has a wrong check digit",
        "IMEI 352099001761480 has one too",
        "the passport module 20241120 was loaded",
        "The sort code 20-45-91 is our branch in Leeds.",
        "SVNr. 7806 281075 is mistyped",
        "RSSMRA85T10A562S is what every manual prints",
        "Routing number 011401534, account no. 7750014482.",
        "routing table 011401533 of account 12",
        "mobile 07700 900412 in the play",
        "pan to 1024768",
        "@app.route(\"/x\") and getty@tty1.service",
    ] {
        assert_eq!(seen(text), [], "{text}");
    }
}

#[test]
fn single_detail_is_info_and_three_make_a_profile() {
    let noted = hits(saying("address: 12 Harbour Street, Leith"), CheckName::Pii);
    assert_eq!(noted.len(), 1);
    assert_eq!((noted[0].rule.as_str(), noted[0].severity), ("postal_address", Severity::Info));
    let text = "Name: Ann Marie Lee\nWhen were you born? It was 28 Feb 1984\nAddress: 12 Harbour Street, Leith\n";
    assert_eq!(
        seen(text).first().map(|(rule, _)| rule.as_str()),
        Some("profile"),
        "{:?}",
        hits(saying(text), CheckName::Pii)
    );
}

#[test]
fn personal_data_counts_in_tool_arguments_but_not_in_results() {
    let text = "marta.kowal@poczta.pl";
    let given = ToolCall { name: "send".to_owned(), args: serde_json::json!({"body": text}), ..ToolCall::default() };
    let got = ToolCall { name: "read".to_owned(), result: Some(text.to_owned()), ..ToolCall::default() };
    let of = |tool| hits(Event { tool: Some(tool), ..Event::default() }, CheckName::Pii);
    assert_eq!(of(given).first().map(|hit| hit.field.as_str().to_owned()).as_deref(), Some("tool.args.body"));
    assert!(of(got).is_empty());
}

#[test]
fn long_list_of_personal_data_gives_twenty_hits() {
    let one = |n: usize| format!("p{n}@poczta.pl, +49 30 9018{:04}\n", n % 10_000);
    let list: Vec<String> = (0..20_000).map(one).collect();
    assert_eq!(hits(saying(&list.concat()), CheckName::Pii).len(), 20);
}
