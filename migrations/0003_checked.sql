-- A clean review by the built-in checks alone is CHECKED: APPROVE is a model's word. Verdicts name the rule that decided
-- them. The locked table comes last, so that nobody waits for it while rows are updated.

UPDATE review_result SET assessment = 'CHECKED' WHERE assessment = 'APPROVE' AND reviewer = 'checks';
UPDATE review_assessment a SET assessment = 'CHECKED' FROM review_result d
    WHERE d.review_id = a.review_id AND d.reviewer = 'checks' AND a.assessment = 'APPROVE';
UPDATE backtest_item SET assessment = 'CHECKED' WHERE assessment = 'APPROVE' AND reviewer = 'checks';
UPDATE backtest_item i SET before_assessment = d.assessment FROM review_result d
    WHERE d.review_id = i.before_review AND i.before_assessment = 'APPROVE' AND d.assessment = 'CHECKED';

SET LOCAL lock_timeout = '1s';
ALTER TABLE verdict ADD COLUMN decided_by text;         -- rule that decided; null for verdicts from before this column
