//! What all reviews of a task come to. Pure: opinions in, one recommendation out.

use serde::Serialize;

use super::Assessment;

/// Most reasons of a recommendation.
const MAX_REASONS: usize = 10;

/// What one review says of one event of a task, or of the whole task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// The shadow.
    pub shadow: String,
    /// Its assessment.
    pub assessment: Assessment,
    /// What it recommends.
    pub recommendation: String,
}

/// One recommendation for a whole task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct TaskRecommendation {
    /// The strictest assessment of any review; null where nothing is reviewed yet.
    pub assessment: Option<Assessment>,
    /// What to do.
    pub recommendation: String,
    /// Why: what the reviews say that stand against the task, the strictest first.
    pub reasons: Vec<String>,
}

/// The recommendation for a task: the strictest opinion decides, in order of receipt where several are as strict.
/// `open`: reviews that have not ended.
pub fn recommend(opinions: &[Opinion], open: u64) -> TaskRecommendation {
    let strictest = opinions.iter().map(|opinion| opinion.assessment).max();
    let Some(assessment) = strictest else {
        let recommendation = match open {
            0 => "Nothing of this task was reviewed.",
            _ => "Wait for its reviews: none has ended yet.",
        };
        return TaskRecommendation { assessment: None, recommendation: recommendation.to_owned(), reasons: Vec::new() };
    };
    let mut against: Vec<&Opinion> =
        opinions.iter().filter(|opinion| opinion.assessment > Assessment::Approve).collect();
    against.sort_by_key(|opinion| std::cmp::Reverse(opinion.assessment));
    let mut reasons: Vec<String> = Vec::new();
    for Opinion { shadow, assessment, recommendation } in against {
        let reason = format!("{shadow}: {}. {recommendation}", assessment.as_str());
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.truncate(MAX_REASONS);
    let decisive = opinions.iter().find(|opinion| opinion.assessment == assessment);
    let mut recommendation = decisive.map(|opinion| opinion.recommendation.clone()).unwrap_or_default();
    if assessment == Assessment::Approve {
        "No concerns found.".clone_into(&mut recommendation);
        if open > 0 {
            recommendation.push_str(" Some of its reviews have not ended yet.");
        }
    }
    TaskRecommendation { assessment: Some(assessment), recommendation, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Assessment::{Approve, Flag, Inconclusive, Suggest};

    fn opinions(of: &[(&str, Assessment, &str)]) -> Vec<Opinion> {
        let opinion = |(shadow, assessment, recommendation): &(&str, Assessment, &str)| Opinion {
            shadow: (*shadow).to_owned(),
            assessment: *assessment,
            recommendation: (*recommendation).to_owned(),
        };
        of.iter().map(opinion).collect()
    }

    #[test]
    fn the_strictest_decides_and_says_why() {
        let of = [
            ("a", Approve, "Fine."),
            ("b", Suggest, "Shorten it."),
            ("c", Flag, "Rotate the key."),
            ("d", Flag, "Stop."),
            ("b", Suggest, "Shorten it."),
            ("e", Inconclusive, "Look."),
        ];
        let one = recommend(&opinions(&of), 3);
        assert_eq!((one.assessment, one.recommendation.as_str()), (Some(Flag), "Rotate the key."));
        let reasons =
            ["c: FLAG. Rotate the key.", "d: FLAG. Stop.", "b: SUGGEST. Shorten it.", "e: INCONCLUSIVE. Look."];
        assert_eq!(one.reasons, reasons);
    }

    #[test]
    fn nothing_against_it_is_an_approval_only_where_something_was_reviewed() {
        let said = |of: &[(&str, Assessment, &str)], open| recommend(&opinions(of), open);
        let approved = said(&[("a", Approve, "Ship it.")], 0);
        assert_eq!((approved.assessment, approved.recommendation.as_str()), (Some(Approve), "No concerns found."));
        assert!(said(&[("a", Approve, "")], 1).recommendation.ends_with("not ended yet."));
        assert_eq!((said(&[], 0).assessment, said(&[], 2).assessment), (None, None));
        assert_ne!(said(&[], 0).recommendation, said(&[], 2).recommendation);
        let many: Vec<String> = (0..50).map(|n| format!("s{n}")).collect();
        let many: Vec<_> = many.iter().map(|shadow| (shadow.as_str(), Flag, "No.")).collect();
        assert_eq!(said(&many, 0).reasons.len(), 10);
    }
}
