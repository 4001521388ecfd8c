import { isRecord } from '../model/is-record.ts';
import type { Logger } from '../telemetry/logger.ts';
import { DATE_STEP_MS, lastWriteOf, timeOf } from './api-dates.ts';
import type { Connection, QueryValue } from './connection.ts';
import { describeFailure, type RequestFailure } from './outcome.ts';
import { numberOf, type RevisionClock, versionOf } from './revision-clock.ts';
import type { Bracket } from './source.ts';

/**
 * Kubelets renew one Lease for each node here, about every ten seconds
 * (https://kubernetes.io/docs/concepts/architecture/leases/#node-heart-beats).
 */
export const NODE_LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

export interface NodeLeasesOptions {
  readonly connection: Pick<Connection, 'request'>;
  /** A collection whose versions the renewals are to date: they do only where one etcd has both. */
  readonly datedPath: string;
  readonly logger: Pick<Logger, 'info'>;
}

/** Reads when node Leases were renewed, which tells when the versions around it were given out. */
export interface NodeLeases {
  /** Tells the clock, which is always the same, what renewals say of the versions since this one; of the newest of them at the least. */
  read(
    since: string,
    revisions: Pick<RevisionClock, 'observe'>,
    signal: AbortSignal,
  ): Promise<void>;
}

/**
 * Of this many nodes, however many there are, one is renewed every tenth of a second on average: those
 * of more would tell little more.
 */
const MOST_LEASES = 100;
/** Of ten seconds each: as far back as the API server remembers versions, which is five to ten minutes. */
const MOST_STEPS = 60;
const TIMEOUT_MS = 5_000;
/** What was renewed so long before the newest of a list is not renewed any more: its node is gone. */
const RENEWED_WITHIN_MS = 20_000;

export function createNodeLeases(options: NodeLeasesOptions): NodeLeases {
  return new ListedLeases(options);
}

/** A list of Leases as of one version. */
interface LeasePage {
  readonly version: bigint;
  readonly renewals: readonly Renewal[];
}

interface Renewal {
  readonly version: bigint;
  readonly when: Bracket;
}

class ListedLeases implements NodeLeases {
  readonly #options: NodeLeasesOptions;
  readonly #told = new Set<string>();
  /** The versions that the last reading covers: an API server that comes and goes is not asked for them again. */
  #covered: { readonly from: bigint; readonly to: bigint } | undefined;

  constructor(options: NodeLeasesOptions) {
    this.#options = options;
  }

  async read(
    since: string,
    revisions: Pick<RevisionClock, 'observe'>,
    signal: AbortSignal,
  ): Promise<void> {
    const from = numberOf(since);
    if (from === undefined) return;
    const newest = await this.#list({}, signal);
    if (newest === undefined) return;
    const dated = await this.#versionOf(this.#options.datedPath, signal);
    let page = await this.#list({}, signal);
    if (dated === undefined || page === undefined) return;
    // Versions of one etcd grow from one answer to the next; those of two do so by accident only.
    if (dated < newest.version || dated > page.version) {
      this.#tellOnce('their versions are those of another etcd');
      return;
    }
    const { version: to } = page;
    const before = this.#covered;
    const covered = before !== undefined && before.from <= from ? before : undefined;
    // Each list shows the last renewal of each node as of its version: the ten seconds before it.
    for (let step = 0; page !== undefined && step < MOST_STEPS; step += 1) {
      for (const { version, when } of page.renewals) revisions.observe(String(version), when);
      const oldest = oldestOf(page.renewals);
      if (oldest === undefined || oldest <= (covered?.to ?? from)) {
        this.#covered = { from: covered?.from ?? from, to };
        return;
      }
      const query = { resourceVersion: String(oldest - 1n), resourceVersionMatch: 'Exact' };
      page = await this.#list(query, signal);
    }
  }

  async #list(
    query: Readonly<Record<string, QueryValue>>,
    signal: AbortSignal,
  ): Promise<LeasePage | undefined> {
    const body = await this.#get(NODE_LEASES, { ...query, limit: MOST_LEASES }, signal);
    const version = versionOf(body);
    const items =
      isRecord(body) && Array.isArray(body['items']) ? (body['items'] as unknown[]) : [];
    return version === undefined ? undefined : { version, renewals: items.flatMap(renewalOf) };
  }

  async #versionOf(path: string, signal: AbortSignal): Promise<bigint | undefined> {
    return versionOf(await this.#get(path, { limit: 1 }, signal));
  }

  async #get(
    path: string,
    query: Readonly<Record<string, QueryValue>>,
    signal: AbortSignal,
  ): Promise<unknown> {
    if (signal.aborted) return undefined;
    const options = { query, signal, timeoutMs: TIMEOUT_MS };
    const outcome = await this.#options.connection.request(path, options);
    if (outcome.kind === 'ok') return outcome.body;
    if (isWorthTelling(outcome)) this.#tellOnce(describeFailure(outcome));
    return undefined;
  }

  #tellOnce(reason: string): void {
    if (this.#told.has(reason)) return;
    this.#told.add(reason);
    const what = 'changes that nobody saw are dated without the Leases of nodes';
    this.#options.logger.info(`[controller] ${what}: ${reason}`);
  }
}

/** Versions that are forgotten (410) end every long stretch; the network is somebody else's to tell of. */
function isWorthTelling(failure: RequestFailure): boolean {
  return failure.kind === 'status' && failure.code !== 410;
}

/** The oldest version among those that are still renewed. */
function oldestOf(renewals: readonly Renewal[]): bigint | undefined {
  const newest = renewals.reduce((most, { when }) => Math.max(most, when.from), -Infinity);
  return renewals
    .filter(({ when }) => when.from > newest - RENEWED_WITHIN_MS)
    .map(({ version }) => version)
    .reduce<bigint | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined);
}

/** Clocks of nodes that are kept in time differ by less. */
const SKEW_MS = 250;
/** A write takes no longer. */
const WRITING_MS = 500;

/**
 * When a Lease was renewed: in the second that the API server wrote down, and there as the kubelet says,
 * give or take what clocks differ by. A kubelet whose clock is not in time is not listened to, and a Lease whose
 * renewals the API server does not date any more says nothing: the date of its creation is that of none of them.
 */
export function renewalOf(object: unknown): readonly Renewal[] {
  const version = versionOf(object);
  if (version === undefined || !isRecord(object)) return [];
  const written = lastWriteOf(object);
  if (written === undefined) return [];
  const spec = object['spec'];
  const said = isRecord(spec) ? timeOf(spec['renewTime']) : undefined;
  const isInTime = said !== undefined && Math.abs(said - written) < DATE_STEP_MS;
  const when = isInTime
    ? { from: Math.max(written, said - SKEW_MS), until: Math.max(written, said) + WRITING_MS }
    : { from: written, until: written + DATE_STEP_MS + WRITING_MS };
  return [{ version, when }];
}
