//! Tests of personal data other than national numbers: names, births, homes, networks.

use umbra_domain::{CheckName, Severity};

use super::{hits, saying};

fn rules(text: &str) -> Vec<String> {
    let hits = hits(saying(text), CheckName::Pii).into_iter();
    hits.filter(|hit| hit.severity >= Severity::Warning).map(|hit| hit.rule).collect()
}

#[test]
fn personal_details_hit_their_rules() {
    for (text, rule) in [
        ("DOB: 04/12/1987", "birth_date"),
        ("Geburtsdatum: 03.05.1985", "birth_date"),
        ("nacido el 5 de mayo de 1980", "birth_date"),
        ("Дата рождения: 12.04.1981", "birth_date"),
        ("生年月日: 1990年5月17日", "birth_date"),
        ("Patient Name: Doe, Jane", "person_name"),
        ("Vorname: Erika, Nachname: Mustermann", "person_name"),
        ("{\"first_name\":\"Aisha\",\"last_name\":\"Khan\"}", "person_name"),
        ("姓名：张伟", "person_name"),
        ("ФИО: Иванов Иван Петрович", "person_name"),
        ("Her home address is 45 Maple Drive, Apt 3", "postal_address"),
        ("Adres: Keizersgracht 123, 1015 CJ Amsterdam", "postal_address"),
        ("地址：北京市朝阳区建国路88号5栋1201室", "postal_address"),
        ("BIC DEUTDEFF500, Konto 0532013000", "bank_account"),
        ("client_ip=93.184.71.12 user=alice", "ip_address"),
        ("write to jane.doe [at] gmail [dot] com", "email"),
        ("anna(at)posteo.de", "email"),
        ("user=maria_lopez%40hotmail.com&x=1", "email"),
        ("CNP 1851026400159", "ro_cnp"),
        ("СНИЛС 112-233-445 95", "ru_snils"),
        ("RFC: GODE561231GR8", "mx_rfc"),
    ] {
        assert!(rules(text).iter().any(|seen| seen == rule), "{text}: {:?}", rules(text));
    }
}

#[test]
fn details_that_identify_no_person_give_no_hit() {
    for text in [
        "Please tell me your date of birth. It's 6/24/1991",
        "date_of_birth: DATE NOT NULL",
        "Albert Einstein was born on 14 March 1879 in Ulm",
        "Employee handbook, chapter 3",
        "Name: Build and test",
        "First name: {{first_name}}",
        "Our office is at 1600 Amphitheatre Parkway, Mountain View, CA",
        "license plate recognition model",
        "Account number is missing",
        "diabetes is a chronic disease",
        "the average salary is $54,000",
        "Title VII of the Civil Rights Act of 2004 protects individuals on the basis of religion",
        "Berlin is at 52.52437, 13.40500",
        "Twitter: @nodejs",
        "server at 91.198.174.192 answered",
        "Call our hotline 0800 123 4567",
        "Zentrale: +49 89 1234-0",
        "at least (at) the end",
        "RFC: 7231 section 6",
    ] {
        assert_eq!(rules(text), Vec::<String>::new(), "{text}");
    }
}
