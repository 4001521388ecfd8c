import { createHash } from 'node:crypto';
import type { LimitFunction } from 'p-limit';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { linkAbort, pause } from '../telemetry/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { RequestFailure } from '../kubernetes/outcome.ts';
import { Backoff } from '../model/backoff.ts';
import { override } from '../model/override.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { TimeSlice } from '../telemetry/time-slice.ts';
import type { KubeconfigSource } from './kubeconfig/kubeconfig-source.ts';
import type { OpenKubeconfig } from './kubeconfig/open-kubeconfig.ts';
import { declaresPrivateNodes, type MissingKubeconfig, type TenantApi } from './tenant-api.ts';

/** Pause between two polls of a valid kubeconfig, varied by 20 %. */
const POLL_AGAIN_MS = 300_000;
const BACKOFF = { baseMs: 20_000, capMs: 300_000 } as const;
/** Shortest pause before a poll after the connection failed. */
const AFTER_FAILURE_MS = 30_000;
const SHORTEST_WAIT_MS = 1_000;
/** Shortest pause between two polls of a valid kubeconfig, however soon its credential ends. */
const SHORTEST_POLL_MS = 10_000;

/** A connection, and its source. */
interface OpenKubeconfigConnection {
  readonly fingerprint: string;
  readonly connection: Connection;
  readonly api: TenantApi;
  /** End of the credential, milliseconds since the epoch. */
  readonly validUntil: number | undefined;
}

/** Polls the kubeconfig of one tenant cluster, and maintains the connection made from it. */
export class KubeconfigFollower {
  readonly #options;
  readonly #backoff: Backoff;
  #cluster: TenantCluster;
  #current: OpenKubeconfigConnection | undefined;
  #missing: MissingKubeconfig | undefined;
  /** Number of changes to the source of the kubeconfig. */
  #moves = 0;
  /** Time of the last poll (monotonic). */
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** Shortest pause before a poll without a cause but time, milliseconds. */
  #sparingMs = 0;
  #dueAt = 0;
  /** True when the settings in force accepted the current kubeconfig. */
  #accepted = false;
  #wake = (): void => undefined;

  constructor(options: {
    readonly cluster: TenantCluster;
    readonly source: KubeconfigSource;
    readonly open: OpenKubeconfig;
    /** Limits reads at the same time; shared with all other tenant clusters. */
    readonly limit: LimitFunction;
    /** Limits processing without a pause; shared with all other tenant clusters. */
    readonly slice: TimeSlice;
    /** Pause between two polls that each cost the API server a separate request, milliseconds. */
    readonly queryMs: () => number;
    readonly clock: Clock;
    /** Uniform in [0, 1). */
    readonly random: () => number;
    readonly logger: Logger;
    readonly onChange: () => void;
  }) {
    this.#options = options;
    this.#cluster = options.cluster;
    this.#backoff = new Backoff({ ...BACKOFF, random: options.random });
  }

  get api(): TenantApi | undefined {
    return this.#current?.api;
  }

  /** Namespace of its Secret, if it has one. */
  get namespace(): string {
    return this.#cluster.home ?? this.#cluster.namespace;
  }

  /**
   * Why there is no kubeconfig. A tenant cluster without private nodes needs none
   * (docs/how-to/private-nodes.md).
   */
  get missing(): MissingKubeconfig | undefined {
    return this.#cluster.nodeMode === 'shared' ? undefined : this.#missing;
  }

  /** Applies the latest state from discovery. */
  update(next: TenantCluster): void {
    const { namespace, name, kubeconfigFile, kubeconfigSecret, nodeMode } = this.#cluster;
    const moved =
      next.namespace !== namespace ||
      next.name !== name ||
      next.kubeconfigFile !== kubeconfigFile ||
      next.kubeconfigSecret?.name !== kubeconfigSecret?.name ||
      next.nodeMode !== nodeMode;
    this.#cluster = next;
    const current = this.#current;
    if (current !== undefined)
      this.#current = { ...current, api: { ...current.api, cluster: next } };
    if (moved) this.pollAgain();
  }

  /** Checks the kubeconfig again by the changed settings. */
  reconsider(): void {
    this.#accepted = false;
    this.pollAgain();
  }

  /** Polls until the signal aborts, then closes the connection. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, limit } = this.#options;
    while (!signal.aborted) {
      this.#dueAt = clock.monotonic() + BACKOFF.capMs;
      await limit(() => (signal.aborted ? Promise.resolve() : this.#poll(signal))).catch(
        (error: unknown) => this.#failUnforeseen(error),
      );
      await this.#waitUntilDue(signal);
    }
    const last = this.#current;
    this.#current = undefined;
    await last?.connection.close();
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const { source, slice, clock, random, logger, queryMs: queryingMs } = this.#options;
    const requested = this.#moves;
    const read = await source(this.#cluster, signal);
    // Hundreds may arrive at the same moment, and parsing one takes milliseconds.
    if (slice.isOver) await slice.next();
    this.#lookedAt = clock.monotonic();
    this.#sparingMs = read.requestedByName === true ? queryingMs() * (0.5 + random()) : 0;
    if (signal.aborted) return;
    if (requested !== this.#moves) {
      // The answer is about the former place of the kubeconfig.
      this.#plan(0);
      return;
    }
    if (read.kind === 'unknown' && this.#current !== undefined && this.#accepted) {
      const { id } = this.#cluster;
      logger.debug(`[controller] tenant API of ${id}: its connection stays: ${read.reason}`);
      this.#retry();
      return;
    }
    if (read.kind === 'found') this.#take(read);
    else if (read.kind === 'refused') this.#refuse(read.reason);
    else if (read.kind === 'unknown') this.#fail('unread', read.reason, 'debug');
    else this.#fail('absent', `no kubeconfig: ${read.reason}`, this.#isExpected ? 'warn' : 'debug');
  }

  #take({ text, where }: Extract<Awaited<ReturnType<KubeconfigSource>>, { kind: 'found' }>): void {
    const { open, logger } = this.#options;
    const cluster = this.#cluster;
    const place = `${cluster.namespace}/${cluster.name}/`;
    const fingerprint = createHash('sha256')
      .update(place + text.reveal())
      .digest('hex');
    const current = this.#current;
    if (this.#accepted && current?.fingerprint === fingerprint && !this.#isOver(current)) {
      this.#succeed();
      return;
    }
    const opened = open(text, cluster);
    if (opened.kind === 'refused') {
      this.#refuse(`${where}: ${opened.reason}`);
      return;
    }
    const connection = reportingFailures(opened.connection, () => this.#pollSoon());
    const { validUntil } = opened;
    this.#replace({ fingerprint, connection, validUntil, api: { cluster, connection } });
    logger.info(`[controller] tenant API of ${cluster.id}: kubeconfig accepted from ${where}`);
    this.#succeed();
  }

  #isOver({ validUntil }: OpenKubeconfigConnection): boolean {
    return validUntil !== undefined && validUntil <= this.#options.clock.now();
  }

  /** Publishes the new connection before it closes the old one. */
  #replace(next: OpenKubeconfigConnection | undefined): void {
    const previous = this.#current;
    this.#current = next;
    this.#options.onChange();
    void previous?.connection.close();
  }

  #succeed(): void {
    const { clock, random, onChange } = this.#options;
    this.#accepted = true;
    this.#backoff.reset();
    const left = (this.#current?.validUntil ?? Number.POSITIVE_INFINITY) - clock.now();
    const usual = Math.max(this.#sparingMs, POLL_AGAIN_MS * (0.8 + 0.4 * random()));
    this.#plan(Math.min(usual, Math.max(SHORTEST_POLL_MS, left)));
    if (this.#missing === undefined) return;
    this.#missing = undefined;
    onChange();
  }

  /**
   * True where a missing kubeconfig is a failure: there was one, or the tenant cluster has private
   * nodes.
   */
  get #isExpected(): boolean {
    return this.#current !== undefined || declaresPrivateNodes(this.#cluster);
  }

  #refuse(reason: string): void {
    this.#fail('refused', `kubeconfig refused: ${reason}`, 'warn');
  }

  #fail(kind: MissingKubeconfig['kind'], reason: string, level: 'warn' | 'debug'): void {
    const { clock, logger, onChange } = this.#options;
    const { id } = this.#cluster;
    this.#retry();
    if (this.#current !== undefined) this.#replace(undefined);
    if (this.#missing?.reason === reason) return;
    logger[level](`[controller] tenant API of ${id}: ${reason}`);
    const since = this.#missing?.since ?? clock.now();
    this.#missing = { tenantCluster: id, kind, reason, since };
    onChange();
  }

  /** Logs the error's name only: its message could quote the kubeconfig. */
  #failUnforeseen(error: unknown): void {
    const kind = error instanceof Error ? error.name : typeof error;
    const reason = `its kubeconfig cannot be read: unexpected ${kind}; report it as a defect`;
    this.#fail('unread', reason, 'warn');
  }

  #retry(): void {
    this.#plan(Math.max(this.#sparingMs, BACKOFF.baseMs / 2 + this.#backoff.next()));
  }

  #plan(ms: number): void {
    // In this order, NaN gives the shortest wait too.
    const wait = ms > SHORTEST_WAIT_MS ? ms : SHORTEST_WAIT_MS;
    this.#dueAt = this.#options.clock.monotonic() + wait;
  }

  /** Polls earlier than planned, but within the limits on polls. */
  #pollSoon(): void {
    const wait = Math.max(this.#sparingMs, AFTER_FAILURE_MS);
    this.#dueAt = Math.min(this.#dueAt, this.#lookedAt + wait);
    this.#wake();
  }

  /** Polls at once. The result of a read under way is dropped. */
  pollAgain(): void {
    this.#moves += 1;
    this.#dueAt = 0;
    this.#wake();
  }

  async #waitUntilDue(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const left = (): number => this.#dueAt - clock.monotonic();
    for (let ms = left(); ms > 0; ms = left()) {
      const link = linkAbort(signal);
      this.#wake = link.abort;
      await pause(clock, ms, link.signal);
      link.release();
      if (signal.aborted) return;
    }
  }
}

const UNAUTHORIZED = 401;

/**
 * The same connection, which also reports failures that a newer kubeconfig may fix: a rejected
 * credential, and an unreachable server.
 */
function reportingFailures(connection: Connection, report: () => void): Connection {
  function checked<T extends { readonly kind: 'ok' } | RequestFailure>(
    outcome: T,
    signal: AbortSignal | undefined,
  ): T {
    const refused = outcome.kind === 'status' && outcome.code === UNAUTHORIZED;
    const cut = outcome.kind === 'network' && signal?.aborted !== true;
    if (refused || cut) report();
    return outcome;
  }
  return override<Connection>(connection, {
    request: async (path, options) =>
      checked(await connection.request(path, options), options?.signal),
    bytes: async (path, options) => checked(await connection.bytes(path, options), options.signal),
    stream: async (path, options) =>
      checked(await connection.stream(path, options), options.signal),
  });
}
