import { open } from 'node:fs/promises';
import type { Clock } from '../telemetry/clock.ts';
import { sameValue } from '../config/immutable.ts';
import {
  type ExternalCluster,
  MOST_FILE_BYTES,
  parseExternalClusters,
} from './external-clusters.ts';
import type { RecordStore } from './memory.ts';
import type { CustomerIdKeys } from './metadata.ts';

/** An external tenant cluster and since when it is listed (milliseconds since the epoch). */
export interface ListedCluster extends ExternalCluster {
  readonly since: number;
}

/** What TENANT_CLUSTERS_FILE says at a moment. */
export interface ExternalLook {
  /** Of the last good list. */
  readonly clusters: readonly ListedCluster[];
  /** What is wrong with the file as it is; the last good list holds meanwhile. */
  readonly problems: readonly string[];
}

/** Follows TENANT_CLUSTERS_FILE. */
export interface ExternalFile {
  /** Reads it again. Rejects only when the records cannot be read or written. */
  look(): Promise<ExternalLook>;
}

export interface ExternalFileOptions {
  readonly path: string;
  readonly customerIdKeys: CustomerIdKeys;
  readonly records: RecordStore;
  readonly clock: Pick<Clock, 'now'>;
}

const RECORD = 'discovery/external-clusters';

/**
 * Kubernetes replaces a mounted file by changing a link, so it is read anew by its path each time. The
 * last good list is remembered: a file that breaks while the operator is stopped offboards nobody.
 */
export function createExternalFile(options: ExternalFileOptions): ExternalFile {
  const { path, customerIdKeys, records, clock } = options;
  let good: readonly ListedCluster[] | undefined;

  async function recall(): Promise<readonly ListedCluster[]> {
    for await (const [key, text] of records.records(RECORD)) {
      // Only this module writes the record.
      if (key === RECORD) return JSON.parse(text) as readonly ListedCluster[];
    }
    return [];
  }

  async function accept(clusters: readonly ExternalCluster[]): Promise<readonly ListedCluster[]> {
    const known = new Map((good ?? []).map(({ name, since }) => [name, since]));
    const listed = clusters.map((cluster) => ({
      ...cluster,
      since: known.get(cluster.name) ?? clock.now(),
    }));
    if (sameValue(listed, good)) return good ?? listed;
    const outcome = await records.writeRecords([{ key: RECORD, value: JSON.stringify(listed) }]);
    if (outcome.kind === 'written') return listed;
    throw new Error(`external tenant clusters cannot be stored: ${outcome.message}`);
  }

  return {
    look: async () => {
      good ??= await recall();
      const read = await readBounded(path);
      if (read.kind === 'failed') return { clusters: good, problems: [named(path, read.reason)] };
      const parsed = parseExternalClusters(read.content, customerIdKeys);
      if (parsed.kind === 'invalid') {
        return { clusters: good, problems: parsed.problems.map((problem) => named(path, problem)) };
      }
      good = await accept(parsed.clusters);
      return { clusters: good, problems: [] };
    },
  };
}

function named(path: string, problem: string): string {
  return `TENANT_CLUSTERS_FILE "${path}": ${problem}`;
}

type BoundedRead =
  | { readonly kind: 'read'; readonly content: string }
  | { readonly kind: 'failed'; readonly reason: string };

async function readBounded(path: string): Promise<BoundedRead> {
  try {
    await using file = await open(path);
    if (!(await file.stat()).isFile()) return { kind: 'failed', reason: 'not a file' };
    const buffer = Buffer.alloc(MOST_FILE_BYTES + 1);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    return { kind: 'read', content: buffer.toString('utf8', 0, bytesRead) };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
    return { kind: 'failed', reason: `cannot be read (${code}); check the path and its mount` };
  }
}
