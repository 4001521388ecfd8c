import { open } from 'node:fs/promises';
import type { Clock } from '../telemetry/clock.ts';
import { sameValue } from '../model/same-value.ts';
import {
  type ExternalCluster,
  MOST_FILE_BYTES,
  parseExternalClusters,
} from './external-clusters.ts';
import type { RecordStore } from '../ledger/ledger.ts';
import type { CustomerIdKeys } from './metadata.ts';

/** An external tenant cluster, and since when it is listed (milliseconds since the epoch). */
export interface ListedCluster extends ExternalCluster {
  readonly since: number;
}

const RECORD = 'discovery/external-clusters';

/**
 * Follows TENANT_CLUSTERS_FILE. Reads it by path each time, because Kubernetes replaces a mounted
 * file by changing a link. Stores the last valid list: a file that breaks while the operator is
 * stopped offboards nobody.
 */
export class ExternalFile {
  readonly #path: string;
  readonly #customerIdKeys: CustomerIdKeys;
  readonly #records: RecordStore;
  readonly #clock: Pick<Clock, 'now'>;
  #good: readonly ListedCluster[] | undefined;

  constructor(options: {
    readonly path: string;
    readonly customerIdKeys: CustomerIdKeys;
    readonly records: RecordStore;
    readonly clock: Pick<Clock, 'now'>;
  }) {
    this.#path = options.path;
    this.#customerIdKeys = options.customerIdKeys;
    this.#records = options.records;
    this.#clock = options.clock;
  }

  /**
   * Reads the file again. Returns the clusters of the last valid list, and the problems of the
   * current file. Rejects only when the records cannot be read or written.
   */
  async poll(): Promise<{
    readonly clusters: readonly ListedCluster[];
    readonly problems: readonly string[];
  }> {
    this.#good ??= await this.#recall();
    const read = await readBounded(this.#path);
    if (read.kind === 'failed') return this.#refused([read.reason], this.#good);
    const parsed = parseExternalClusters(read.content, this.#customerIdKeys);
    if (parsed.kind === 'invalid') return this.#refused(parsed.problems, this.#good);
    this.#good = await this.#accept(parsed.clusters, this.#good);
    return { clusters: this.#good, problems: [] };
  }

  #refused(problems: readonly string[], clusters: readonly ListedCluster[]) {
    const where = `TENANT_CLUSTERS_FILE "${this.#path}"`;
    return { clusters, problems: problems.map((problem) => `${where}: ${problem}`) };
  }

  async #recall(): Promise<readonly ListedCluster[]> {
    for await (const [key, text] of this.#records.records(RECORD)) {
      // Only this module writes the record.
      if (key === RECORD) return JSON.parse(text) as readonly ListedCluster[];
    }
    return [];
  }

  async #accept(
    clusters: readonly ExternalCluster[],
    good: readonly ListedCluster[],
  ): Promise<readonly ListedCluster[]> {
    const known = new Map(good.map(({ name, since }) => [name, since]));
    const now = this.#clock.now();
    const listed = clusters.map((each) => ({ ...each, since: known.get(each.name) ?? now }));
    if (sameValue(listed, good)) return good;
    const change = { key: RECORD, value: JSON.stringify(listed) };
    const outcome = await this.#records.writeRecords([change]);
    if (outcome.kind === 'written') return listed;
    throw new Error(`external tenant clusters cannot be stored: ${outcome.message}`);
  }
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
