-- How many reserved units were ever given back: while this stands still, a cap that is spent stays spent.
INSERT INTO feed (name) VALUES ('release');
