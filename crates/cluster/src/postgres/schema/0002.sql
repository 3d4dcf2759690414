-- What a node keeps for the next one that does its work: programs, and up to where they read.
CREATE TABLE marks (
    name text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    written timestamptz NOT NULL
);

-- Merging, and reading on from an offset. Live segments of a partition do not overlap, so their
-- ends are in the order of their beginnings.
CREATE INDEX segments_by_end ON segments (partition, end_offset) WHERE retired IS NULL;
DROP INDEX segments_by_offset;
