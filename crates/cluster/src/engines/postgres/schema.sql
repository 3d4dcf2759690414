-- Nodes, leases, offsets, segments, marks. Times are those of this server's clock, but for columns that
-- end in _ns: nanoseconds since 1970 UTC by the clocks of senders and collectors.

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
    lost bigint NOT NULL
);

CREATE TABLE producers (
    partition bigint NOT NULL,
    node bigint NOT NULL,
    sequence bigint NOT NULL,
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
    received_last_ns bigint NOT NULL,
    lines bigint NOT NULL,
    bytes bigint NOT NULL,
    published timestamptz NOT NULL,
    retired timestamptz,
    replaced_by text
);

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
-- The sweep.
CREATE INDEX segments_retired ON segments (retired) WHERE retired IS NOT NULL;
