//! National identity numbers. In: letters and digits without separators. Out: true for such a number. Most have a check
//! digit. Nearly all need their name before them, since one in ten other numbers passes a check too.

use super::{
    cards::luhn,
    numbers::is_social_security,
    shapes::{
        ar_dni, at_svnr, au_medicare, au_tfn, be_national, br_cpf, ca_sin, ch_ahv, cl_rut, cn_resident_id, day_month,
        de_tax_id, es_dni, fi_hetu, fr_nir, has_form, ie_pps, in_aadhaar, in_pan, is_digits, it_codice_fiscale,
        jp_my_number, kr_rrn, mx_curp, nl_bsn, no_fodselsnummer, pl_pesel, pt_nif, se_personnummer, sg_nric, tr_kimlik,
        uk_nhs, uk_nino, us_itin,
    },
};

/// A kind of number that a state assigns to people.
#[derive(Debug)]
pub(super) struct National {
    pub(super) rule: &'static str,
    pub(super) title: &'static str,
    /// Words that announce it.
    pub(super) words: &'static [&'static str],
    /// True if capital letters and digits form such a number.
    pub(super) shape: fn(&str) -> bool,
}

const fn national(
    rule: &'static str,
    title: &'static str,
    words: &'static [&'static str],
    shape: fn(&str) -> bool,
) -> National {
    National { rule, title, words, shape }
}

/// Every known kind. A check is used where it has a public definition.
pub(super) const NATIONAL: &[National] = &[
    national(
        "us_ssn",
        "a US social security number",
        &["ssn", "social security", "social security number", "social_security_number"],
        is_social_security,
    ),
    national("ro_cnp", "a Romanian personal number", &["cnp", "cod numeric personal"], |id| is_digits(id, 13)),
    national("bg_egn", "a Bulgarian personal number", &["егн", "ЕГН", "egn"], |id| is_digits(id, 10)),
    national("ru_snils", "a Russian insurance number", &["snils", "снилс", "СНИЛС"], |id| is_digits(id, 11)),
    national("ru_inn", "a Russian taxpayer number", &["инн", "ИНН"], |id| is_digits(id, 12)),
    national("mx_rfc", "a Mexican RFC", &["rfc"], |id| has_form(id, "AAAA999999***")),
    national("co_cedula", "a Colombian identity number", &["cédula", "cédula de ciudadanía", "cedula"], |id| {
        (8..=10).contains(&id.len()) && is_digits(id, id.len())
    }),
    national("nz_ird", "a New Zealand tax number", &["ird number", "ird no", "ird"], |id| {
        matches!(id.len(), 8 | 9) && is_digits(id, id.len())
    }),
    national("pk_cnic", "a Pakistani identity number", &["cnic"], |id| is_digits(id, 13)),
    national("ae_id", "an Emirates identity number", &["emirates id"], |id| is_digits(id, 15) && id.starts_with("784")),
    national("th_id", "a Thai identity number", &["thai id", "thai national id", "บัตรประชาชน"], |id| is_digits(id, 13)),
    national("cz_birth_number", "a Czech or Slovak birth number", &["rodné číslo", "rodne cislo"], |id| {
        matches!(id.len(), 9 | 10) && is_digits(id, id.len())
    }),
    national("il_id", "an Israeli identity number", &["teudat zehut", "תעודת זהות"], |id| is_digits(id, 9)),
    national("gr_amka", "a Greek insurance number", &["amka", "αμκα"], |id| is_digits(id, 11) && day_month(id)),
    national(
        "de_insurance",
        "a German insurance number",
        &["rentenversicherungsnummer", "sozialversicherungsnummer"],
        |id| has_form(id, "99999999A999"),
    ),
    national(
        "national_id",
        "an identity number",
        &["national id", "national_id", "identity number", "tax id", "citizen id"],
        |id| is_digits(id, id.len()) && (9..=13).contains(&id.len()),
    ),
    national("us_itin", "a US taxpayer number", &["itin", "taxpayer identification number"], us_itin),
    national(
        "ca_sin",
        "a Canadian social insurance number",
        &["social insurance number", "canadian sin", "sin:", "assurance sociale"],
        ca_sin,
    ),
    national("uk_nhs", "a British NHS number", &["nhs number", "nhs no", "nhs_number"], uk_nhs),
    national(
        "uk_nino",
        "a British national insurance number",
        &["national insurance", "national insurance number", "nino", "ni number"],
        uk_nino,
    ),
    national("ie_pps", "an Irish PPS number", &["pps number", "ppsn", "pps no"], ie_pps),
    national("nl_bsn", "a Dutch BSN", &["bsn", "burgerservicenummer", "sofinummer"], nl_bsn),
    national("be_national", "a Belgian national number", &["rijksregisternummer", "numéro national"], be_national),
    national(
        "de_tax_id",
        "a German tax number",
        &["steuer-id", "steuerid", "steueridentifikationsnummer", "steuer-identifikationsnummer", "idnr"],
        de_tax_id,
    ),
    national(
        "at_svnr",
        "an Austrian social insurance number",
        &["svnr", "sv-nr", "sv-nummer", "sozialversicherungsnummer", "versicherungsnummer"],
        at_svnr,
    ),
    national("ch_ahv", "a Swiss AHV number", &["ahv", "ahv-nummer", "avs", "ahv-nr"], ch_ahv),
    national("es_dni", "a Spanish DNI or NIE", &["dni", "nif", "nie", "documento nacional de identidad"], es_dni),
    national("pt_nif", "a Portuguese NIF", &["nif", "contribuinte"], pt_nif),
    national("it_codice_fiscale", "an Italian codice fiscale", &["codice fiscale", "cod. fiscale"], it_codice_fiscale),
    national(
        "fr_nir",
        "a French NIR",
        &["sécurité sociale", "numéro de sécurité sociale", "numéro de sécu", "nir", "insee"],
        fr_nir,
    ),
    national("pl_pesel", "a Polish PESEL", &["pesel"], pl_pesel),
    national("se_personnummer", "a Swedish personal number", &["personnummer", "personnr"], se_personnummer),
    national("no_fodselsnummer", "a Norwegian national number", &["fødselsnummer", "fnr"], no_fodselsnummer),
    national("fi_hetu", "a Finnish personal code", &["henkilötunnus", "hetu"], fi_hetu),
    national("dk_cpr", "a Danish CPR number", &["cpr", "cpr-nummer", "cpr nr"], |id| {
        is_digits(id, 10) && day_month(id)
    }),
    national("imsi", "a SIM card's identity number (IMSI)", &["imsi"], |id| is_digits(id, 15)),
    national("br_cpf", "a Brazilian CPF", &["cpf"], br_cpf),
    national("in_aadhaar", "an Indian Aadhaar number", &["aadhaar", "aadhar", "uidai"], in_aadhaar),
    national(
        "in_pan",
        "an Indian PAN",
        &["pan", "pan number", "pan card", "permanent account number", "pan no"],
        in_pan,
    ),
    national(
        "cn_resident_id",
        "a Chinese resident number",
        &["身份证", "身份證", "resident id", "resident identity", "id card"],
        cn_resident_id,
    ),
    national(
        "kr_rrn",
        "a Korean resident number",
        &["주민등록번호", "주민번호", "resident registration number"],
        kr_rrn,
    ),
    national("jp_my_number", "a Japanese individual number", &["マイナンバー", "my number", "個人番号"], jp_my_number),
    national("sg_nric", "a Singaporean NRIC", &["nric", "nric/fin"], sg_nric),
    national("au_tfn", "an Australian tax file number", &["tfn", "tax file number"], au_tfn),
    national("au_medicare", "an Australian Medicare number", &["medicare", "medicare number"], au_medicare),
    national("za_id", "a South African identity number", &["south african id", "sa id number", "rsa id"], |id| {
        is_digits(id, 13) && luhn(id)
    }),
    national("tr_kimlik", "a Turkish identity number", &["tc kimlik", "t.c. kimlik", "kimlik no"], tr_kimlik),
    national("mx_curp", "a Mexican CURP", &["curp"], mx_curp),
    national("cl_rut", "a Chilean RUT", &["rut", "r.u.t.", "rol único", "rol único tributario"], cl_rut),
    national("ar_dni", "an Argentine DNI", &["dni", "documento nacional de identidad"], ar_dni),
    // Not a state's number, but a person's all the same: that of a telephone.
    national("imei", "a telephone's identity number (IMEI)", &["imei"], |id| is_digits(id, 15) && luhn(id)),
];

/// Returns the kind of digits that need no announcement, by their groups and checks.
pub(super) fn unannounced(digits: &str, sizes: &[usize], text: &str) -> Option<(&'static str, &'static str)> {
    let dotted = || text.get(3..4) == Some(".") && text.get(7..8) == Some(".") && text.get(11..12) == Some("-");
    let rule = match sizes {
        [3, 3, 3, 2] if dotted() && br_cpf(digits) => "br_cpf",
        [1, 2, 2, 2, 3, 3, 2] if fr_nir(digits) => "fr_nir",
        [18] if cn_resident_id(digits) => "cn_resident_id",
        [3, 4, 4, 2] if text.contains('.') && ch_ahv(digits) => "ch_ahv",
        _ => return None,
    };
    named(rule)
}

/// Returns the kind of a word that needs no announcement.
pub(super) fn unannounced_word(word: &str) -> Option<(&'static str, &'static str)> {
    // Common examples; behind their name they count.
    const EXAMPLES: [&str; 2] = ["RSSMRA85T10A562S", "11010519491231002X"];
    let upper = || !word.bytes().any(|byte| byte.is_ascii_lowercase()) && !EXAMPLES.contains(&word);
    match word.len() {
        16 if upper() && it_codice_fiscale(word) => named("it_codice_fiscale"),
        18 if upper() && cn_resident_id(word) => named("cn_resident_id"),
        18 if upper() && mx_curp(word) => named("mx_curp"),
        _ => None,
    }
}

fn named(rule: &str) -> Option<(&'static str, &'static str)> {
    NATIONAL.iter().find(|kind| kind.rule == rule).map(|kind| (kind.rule, kind.title))
}
