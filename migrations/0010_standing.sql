-- What a serving process has in force and how its providers do, as JSON: any process can say how the service stands.
-- Null for a process that does not serve.
ALTER TABLE worker ADD COLUMN standing text;
