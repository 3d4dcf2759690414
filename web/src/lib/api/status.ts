// What the server says of itself, its cluster and the files that it follows, as typed calls.

import { json, type CallOptions } from './call';

export interface IngestSource {
  source: string;
  /** A readable name. */
  title: string;
  lines_received: number;
  bytes_received: number;
  lines_kept: number;
  bytes_kept: number;
  /** Received, and not yet kept or dropped. */
  lines_in_flight: number;
  bytes_in_flight: number;
  connections_total: number;
  connections_open: number;
  connections_refused: number;
  /** Dropped lines by reason. */
  dropped: Record<string, number>;
  /** Bytes that were received and not kept, by reason. */
  dropped_bytes: Record<string, number>;
}

export interface Status {
  version: string;
  started: string;
  now: string;
  uptime_s: number;
  ready: boolean;
  ingest: IngestSource[];
  /** Null while the store is being opened. */
  store: StoreStatus | null;
  parse_lag_lines: number;
  recovery: string;
  /** Null for listeners that are off. */
  listeners: Record<string, string | null>;
  /** Null when no files are followed. */
  files: FileTotals | null;
  /** Null when the journal is not read. */
  journald: { reading: boolean; entries: number; error: string | null } | null;
  data_dir: string;
  /** Whether queries read the lines of other nodes. */
  cluster: boolean;
  /** In a cluster on Kafka: the numbers of all nodes together. */
  all_nodes?: AllNodes;
}

/** What all nodes of a cluster received since their starts, and what the cluster holds. */
export interface AllNodes {
  /** The nodes that are in the sums. */
  nodes: { node: string; name: string; started: string }[];
  lines_received: number;
  bytes_received: number;
  lines_dropped: number;
  /** Null while PostgreSQL is away, as the three below. */
  lines: number | null;
  bytes_objects: number | null;
  oldest: string | null;
  newest: string | null;
  /** The fullest local disk. */
  disk: { node: string; used_bytes: number; free_bytes: number } | null;
  /** What is in no sum, and why. */
  missing: { node: string; error: string }[];
}

/** How a node finds an engine of the cluster. */
export interface EngineCalls {
  calls: number;
  errors: number;
  mean_ms: number;
  /** For how long no call has succeeded; null while the engine works. */
  failing_s: number | null;
  last_error: string | null;
}

/** What `/api/v1/cluster` says: `nodes` and `partitions` of a cluster, or `copies` of several stores. */
export interface ClusterState {
  nodes?: {
    node: string;
    /** For people. */
    name: string;
    address: string;
    roles: string[];
    version: string;
    state: string;
    silent_s: number;
    accepting: boolean;
    /** Why a node takes no partitions and reads no segments for others. */
    refusal?: string | null;
    /** Null while the catalog is away. */
    partitions: number | null;
    /** The calls of the node to each engine; null if it does not answer. */
    engines?: Record<string, EngineCalls> | null;
    error?: string | null;
  }[];
  /** Empty while the catalog is away. What the log or the owner does not tell is null. */
  partitions?: {
    partition: number;
    owner: string | null;
    end: number | null;
    unpublished: number | null;
    lag_messages?: number | null;
    lag_s?: number | null;
    lost?: number;
    trouble?: string | null;
  }[];
  partitions_unowned?: number | null;
  partitions_troubled?: number | null;
  segments?: number | null;
  segments_bytes?: number | null;
  /** Why something is not known. */
  errors?: string[];
  copies?: { whole: boolean; stores: { store: string; state: string; error?: string; lines?: number; bytes_disk?: number }[] }[];
}

export function clusterState(options: CallOptions): Promise<ClusterState> {
  return json<ClusterState>('/api/v1/cluster', {}, options);
}

export interface FileTotals {
  followed: number;
  unreadable: number;
  /** Bytes of the file that are not durable yet. */
  lag_bytes: number;
  bytes_lost: number;
}

export interface FollowedFile {
  path: string;
  state: string;
  size_bytes: number;
  lag_bytes: number;
  /** The time of the last read that found bytes. */
  read: string | null;
  error: string | null;
}

/** The followed files: those that cannot be read first, then by path. */
export async function followedFiles(limit: number, options: CallOptions): Promise<FollowedFile[]> {
  const answer = await json<{ files: FollowedFile[] }>('/api/v1/files', { limit }, options);
  return answer.files;
}

export interface StoreStatus {
  lines: number;
  bytes_raw: number;
  bytes_disk: number;
  segments: number;
  segments_sealed: number;
  sealed_bytes_raw: number;
  sealed_bytes_disk: number;
  sealing: { lag_segments: number; lag_bytes: number; lag_s: number; damaged_segments: number; damaged_lines: number };
  oldest: string | null;
  newest: string | null;
  /** Space that Loginson may still use; null, as the two below, if the system does not report it. */
  disk_free_bytes: number | null;
  /** Space used by files of all programs; with the free bytes less than the total if a part is reserved. */
  disk_used_bytes: number | null;
  disk_total_bytes: number | null;
  retention: { age_s: number | null; bytes_max: number | null };
  state: string;
}

export function status(options: CallOptions = {}): Promise<Status> {
  return json('/api/v1/status', {}, options);
}
