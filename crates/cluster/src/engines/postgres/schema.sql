-- Nodes, leases, offsets, segments, marks. Times are those of this server's clock, but for first_ns and
-- last_ns: nanoseconds since 1970 UTC by the clocks of senders and collectors.

CREATE TABLE nodes (
    node bigint PRIMARY KEY,
    name text NOT NULL,
    address text NOT NULL,
    roles text[] NOT NULL,
    version text NOT NULL,
    accepting boolean NOT NULL,
    seen timestamptz NOT NULL
);

CREATE TABLE leases (
    resource text PRIMARY KEY,
    owner bigint,
    epoch bigint NOT NULL,
    expires timestamptz NOT NULL
);

CREATE TABLE partitions (
    partition bigint PRIMARY KEY,
    next_offset bigint NOT NULL,
    lost bigint NOT NULL,
    -- Of its live segments: counted in the transaction that adds or retires them.
    live_segments bigint NOT NULL DEFAULT 0,
    live_bytes bigint NOT NULL DEFAULT 0
);

CREATE TABLE producers (
    partition bigint NOT NULL,
    node bigint NOT NULL,
    sequence bigint NOT NULL,
    -- Bit i says whether the frame with the number sequence - 1 - i was seen.
    seen_before bigint NOT NULL,
    seen timestamptz NOT NULL,
    PRIMARY KEY (partition, node)
);

CREATE TABLE segments (
    name text PRIMARY KEY,
    partition bigint NOT NULL,
    first_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    first_ns bigint NOT NULL,
    last_ns bigint NOT NULL CHECK (last_ns >= first_ns),
    -- When its newest frames were sealed, by this server's clock: what retention counts from.
    received_last_ns bigint NOT NULL,
    lines bigint NOT NULL,
    bytes bigint NOT NULL,
    searched bigint NOT NULL DEFAULT 0,
    rules bigint NOT NULL DEFAULT 0,
    published timestamptz NOT NULL,
    retired timestamptz,
    replaced_by text
);

-- The frames whose lines a segment may have, by the node that built them. Numbers are unsigned: they
-- are stored with their highest bit flipped, so that they are in order.
CREATE TABLE frames (
    segment text NOT NULL REFERENCES segments (name) ON DELETE CASCADE,
    node bigint NOT NULL,
    first_number bigint NOT NULL,
    last_number bigint NOT NULL
);

-- Deletions of lines. The filter is empty once it is not needed any more; ends are those of the
-- partitions of the log when the deletion was requested.
CREATE TABLE deletions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    filter text NOT NULL,
    state text NOT NULL,
    created timestamptz NOT NULL,
    finished timestamptz,
    ends bigint[] NOT NULL,
    lines bigint NOT NULL
);

-- Who needs the objects of segments that are retired from a time on: backups.
CREATE TABLE holds (
    holder text PRIMARY KEY,
    began timestamptz NOT NULL,
    expires timestamptz NOT NULL
);

-- The number that backups of this cluster are known by; a restored one has it too.
CREATE TABLE identity (number bigint NOT NULL);
INSERT INTO identity VALUES (1 + floor(random() * 4294967295)::bigint);

-- What a node keeps for the next one that does its work: programs, and up to where they read.
CREATE TABLE marks (
    name text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    written timestamptz NOT NULL
);

-- Plans of queries. The end of a range is stored as one past its last value, which has to exist.
CREATE INDEX segments_by_time ON segments USING gist
    (int8range(LEAST(first_ns, 9223372036854775806), LEAST(last_ns, 9223372036854775806), '[]'))
    WHERE retired IS NULL;
-- Merging, and reading on from an offset. Live segments of a partition do not overlap, so their
-- ends are in the order of their beginnings.
CREATE INDEX segments_by_end ON segments (partition, end_offset) WHERE retired IS NULL;
-- Retention.
CREATE INDEX segments_by_arrival ON segments (received_last_ns, name) WHERE retired IS NULL;
-- The lines around a line, which an id names.
CREATE INDEX frames_by_number ON frames (node, last_number);
CREATE INDEX frames_by_segment ON frames (segment);
-- Deletions that are not done for all segments.
CREATE INDEX segments_by_search ON segments (searched) WHERE retired IS NULL;
-- The sweep.
CREATE INDEX segments_retired ON segments (retired) WHERE retired IS NOT NULL;
