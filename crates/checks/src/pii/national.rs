//! National identity numbers. In: letters and digits without separators. Out: true for such a number. Most have a check
//! digit. Nearly all need their name before them, since one in ten other numbers passes a check too.

use std::sync::LazyLock;

use super::{
    super::{rules::BUILT_IN, word_lists},
    cards::luhn,
    numbers::is_social_security,
    shapes::{
        ar_dni, at_svnr, au_medicare, au_tfn, be_national, br_cpf, ca_sin, ch_ahv, cl_rut, cn_resident_id, day_month,
        de_tax_id, es_dni, fi_hetu, fr_nir, has_form, ie_pps, in_aadhaar, in_pan, is_digits, it_codice_fiscale,
        jp_my_number, kr_rrn, mx_curp, nl_bsn, no_fodselsnummer, pl_pesel, pt_nif, se_personnummer, sg_nric, tr_kimlik,
        uk_nhs, uk_nino, us_itin,
    },
};

/// Test whether capital letters and digits form a number of a kind.
type Shape = fn(&str) -> bool;

/// A kind of number that a state assigns to people.
#[derive(Debug)]
pub(super) struct National {
    pub(super) rule: &'static str,
    pub(super) title: &'static str,
    /// Words that announce it.
    pub(super) words: Vec<&'static str>,
    /// Form of such a number.
    pub(super) shape: Shape,
}

/// Every known kind, with the title of its row in `rules/pii.toml`, and its words in `rules/words.toml`.
pub(super) static NATIONAL: LazyLock<Vec<National>> = LazyLock::new(|| {
    let kind = |&(rule, shape): &(&'static str, Shape)| {
        let row = BUILT_IN.iter().find(|row| row.id == rule)?;
        let mut words = word_lists::lines("national_numbers").filter_map(|line| line.split_once(": "));
        let (_, words) = words.find(|(id, _)| *id == rule)?;
        Some(National { rule, title: row.description.as_deref()?, words: words.split('|').collect(), shape })
    };
    SHAPES.iter().filter_map(kind).collect()
});

/// Forms of the kinds. A check is used where it has a public definition. The last one is not a state's number, but a
/// person's all the same: that of a telephone.
const SHAPES: &[(&str, Shape)] = &[
    ("us_ssn", is_social_security),
    ("ro_cnp", |id| is_digits(id, 13)),
    ("bg_egn", |id| is_digits(id, 10)),
    ("ru_snils", |id| is_digits(id, 11)),
    ("ru_inn", |id| is_digits(id, 12)),
    ("mx_rfc", |id| has_form(id, "AAAA999999***")),
    ("co_cedula", |id| (8..=10).contains(&id.len()) && is_digits(id, id.len())),
    ("nz_ird", |id| matches!(id.len(), 8 | 9) && is_digits(id, id.len())),
    ("pk_cnic", |id| is_digits(id, 13)),
    ("ae_id", |id| is_digits(id, 15) && id.starts_with("784")),
    ("th_id", |id| is_digits(id, 13)),
    ("cz_birth_number", |id| matches!(id.len(), 9 | 10) && is_digits(id, id.len())),
    ("il_id", |id| is_digits(id, 9)),
    ("gr_amka", |id| is_digits(id, 11) && day_month(id)),
    ("de_insurance", |id| has_form(id, "99999999A999")),
    ("national_id", |id| is_digits(id, id.len()) && (9..=13).contains(&id.len())),
    ("us_itin", us_itin),
    ("ca_sin", ca_sin),
    ("us_mbi", |id| has_form(id, "9A*9A*9AA99")),
    ("uk_nhs", uk_nhs),
    ("uk_nino", uk_nino),
    ("ie_pps", ie_pps),
    ("nl_bsn", nl_bsn),
    ("be_national", be_national),
    ("de_tax_id", de_tax_id),
    ("at_svnr", at_svnr),
    ("ch_ahv", ch_ahv),
    ("es_dni", es_dni),
    ("pt_nif", pt_nif),
    ("it_codice_fiscale", it_codice_fiscale),
    ("fr_nir", fr_nir),
    ("pl_pesel", pl_pesel),
    ("se_personnummer", se_personnummer),
    ("no_fodselsnummer", no_fodselsnummer),
    ("fi_hetu", fi_hetu),
    ("dk_cpr", |id| is_digits(id, 10) && day_month(id)),
    ("imsi", |id| is_digits(id, 15)),
    ("br_cpf", br_cpf),
    ("in_aadhaar", in_aadhaar),
    ("in_pan", in_pan),
    ("cn_resident_id", cn_resident_id),
    ("kr_rrn", kr_rrn),
    ("jp_my_number", jp_my_number),
    ("sg_nric", sg_nric),
    ("au_tfn", au_tfn),
    ("au_medicare", au_medicare),
    ("za_id", |id| is_digits(id, 13) && luhn(id)),
    ("tr_kimlik", tr_kimlik),
    ("mx_curp", mx_curp),
    ("cl_rut", cl_rut),
    ("ar_dni", ar_dni),
    ("imei", |id| is_digits(id, 15) && luhn(id)),
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
