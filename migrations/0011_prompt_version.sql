-- By which version of our words the model was asked; null where none was, and of results from before.
ALTER TABLE review_result ADD COLUMN prompt_version smallint;
