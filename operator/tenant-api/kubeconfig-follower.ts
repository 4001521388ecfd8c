import { createHash } from 'node:crypto';
import type { LimitFunction } from 'p-limit';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { linkAbort, pause } from '../kubernetes/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { RequestFailure } from '../kubernetes/outcome.ts';
import { type Backoff, createBackoff } from '../model/backoff.ts';
import { override } from '../model/override.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { TimeSlice } from '../telemetry/time-slice.ts';
import type { KubeconfigSource } from './kubeconfig/kubeconfig-source.ts';
import type { OpenKubeconfig } from './kubeconfig/open-kubeconfig.ts';
import type { MissingKubeconfig, TenantApi } from './tenant-api.ts';

interface KubeconfigFollowerOptions {
  readonly cluster: TenantCluster;
  readonly source: KubeconfigSource;
  readonly open: OpenKubeconfig;
  /** Of reads at the same time, shared with all other tenant clusters. */
  readonly limit: LimitFunction;
  /** Of looking at what was read, shared likewise. */
  readonly slice: TimeSlice;
  /** Milliseconds between two looks that each cost the API server a request of their own. */
  readonly queryMs: () => number;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly onChange: () => void;
}

/** Between two looks at a kubeconfig that is good, give or take a fifth. */
const POLL_AGAIN_MS = 300_000;
const BACKOFF = { baseMs: 20_000, capMs: 300_000 } as const;
/** After the connection has failed, and at most as often. */
const AFTER_FAILURE_MS = 30_000;
const SHORTEST_WAIT_MS = 1_000;
/** Between two looks at a good one, however soon its credential is said to end. */
const SHORTEST_POLL_MS = 10_000;

/** A connection, and what it was made from. */
interface Held {
  readonly fingerprint: string;
  readonly connection: Connection;
  readonly api: TenantApi;
  /** When its credential ends, milliseconds since the epoch. */
  readonly validUntil: number | undefined;
}

/** Reads the kubeconfig of one tenant cluster again and again, and keeps a connection made from it. */
export class KubeconfigFollower {
  readonly #options: KubeconfigFollowerOptions;
  readonly #backoff: Backoff;
  #cluster: TenantCluster;
  #held: Held | undefined;
  #missing: MissingKubeconfig | undefined;
  /** How often what decides about its kubeconfig has changed. */
  #moves = 0;
  /** Monotonic. */
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** The shortest wait before a look that nothing but time calls for, milliseconds. */
  #sparingMs = 0;
  #dueAt = 0;
  /** Accepted by the settings in force. */
  #accepted = false;
  #wake = (): void => undefined;

  constructor(options: KubeconfigFollowerOptions) {
    this.#options = options;
    this.#cluster = options.cluster;
    this.#backoff = createBackoff({ ...BACKOFF, random: options.random });
  }

  get api(): TenantApi | undefined {
    return this.#held?.api;
  }

  /** Where its Secret is, if it has one. */
  get namespace(): string {
    return this.#cluster.home ?? this.#cluster.namespace;
  }

  /** A tenant cluster without nodes of its own needs no kubeconfig (docs/how-to/private-nodes.md). */
  get missing(): MissingKubeconfig | undefined {
    return this.#cluster.nodeMode === 'shared' ? undefined : this.#missing;
  }

  /** What discovery says of the tenant cluster now. */
  update(next: TenantCluster): void {
    const { namespace, name, kubeconfigFile, kubeconfigSecret, nodeMode } = this.#cluster;
    const moved =
      next.namespace !== namespace ||
      next.name !== name ||
      next.kubeconfigFile !== kubeconfigFile ||
      next.kubeconfigSecret?.name !== kubeconfigSecret?.name ||
      next.nodeMode !== nodeMode;
    this.#cluster = next;
    const held = this.#held;
    if (held !== undefined) this.#held = { ...held, api: { ...held.api, cluster: next } };
    if (moved) this.pollAgain();
  }

  /** The settings have changed: what was accepted by the former ones is looked at again. */
  reconsider(): void {
    this.#accepted = false;
    this.pollAgain();
  }

  /** Until the signal aborts; the connection is closed then. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, limit } = this.#options;
    while (!signal.aborted) {
      this.#dueAt = clock.monotonic() + BACKOFF.capMs;
      await limit(() => (signal.aborted ? Promise.resolve() : this.#poll(signal))).catch(
        (error: unknown) => this.#failUnforeseen(error),
      );
      await this.#waitUntilDue(signal);
    }
    const last = this.#held;
    this.#held = undefined;
    await last?.connection.close();
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const { source, slice, clock, random, logger, queryMs: queryingMs } = this.#options;
    const requested = this.#moves;
    const read = await source(this.#cluster, signal);
    // Hundreds may be read at the same moment, and parsing one takes milliseconds.
    if (slice.isOver) await slice.next();
    this.#lookedAt = clock.monotonic();
    this.#sparingMs = read.asked === true ? queryingMs() * (0.5 + random()) : 0;
    if (signal.aborted) return;
    if (requested !== this.#moves) {
      // What was asked where it was before says nothing of where it is.
      this.#plan(0);
      return;
    }
    if (read.kind === 'unknown' && this.#held !== undefined && this.#accepted) {
      const { id } = this.#cluster;
      logger.debug(`[controller] tenant API of ${id}: kept as it is: ${read.reason}`);
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
    const held = this.#held;
    if (this.#accepted && held?.fingerprint === fingerprint && !this.#isOver(held)) {
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

  #isOver({ validUntil }: Held): boolean {
    return validUntil !== undefined && validUntil <= this.#options.clock.now();
  }

  /** The new connection is known before the old one ends. */
  #replace(next: Held | undefined): void {
    const previous = this.#held;
    this.#held = next;
    this.#options.onChange();
    void previous?.connection.close();
  }

  #succeed(): void {
    const { clock, random, onChange } = this.#options;
    this.#accepted = true;
    this.#backoff.reset();
    const left = (this.#held?.validUntil ?? Number.POSITIVE_INFINITY) - clock.now();
    const usual = Math.max(this.#sparingMs, POLL_AGAIN_MS * (0.8 + 0.4 * random()));
    this.#plan(Math.min(usual, Math.max(SHORTEST_POLL_MS, left)));
    if (this.#missing === undefined) return;
    this.#missing = undefined;
    onChange();
  }

  /** Somebody misses its kubeconfig: there was one, or it is known to have nodes of its own. */
  get #isExpected(): boolean {
    const { source, nodeMode } = this.#cluster;
    return this.#held !== undefined || source === 'external' || nodeMode === 'private';
  }

  #refuse(reason: string): void {
    this.#fail('refused', `kubeconfig refused: ${reason}`, 'warn');
  }

  #fail(kind: MissingKubeconfig['kind'], reason: string, level: 'warn' | 'debug'): void {
    const { clock, logger, onChange } = this.#options;
    const { id } = this.#cluster;
    this.#retry();
    if (this.#held !== undefined) this.#replace(undefined);
    if (this.#missing?.reason === reason) return;
    logger[level](`[controller] tenant API of ${id}: ${reason}`);
    const since = this.#missing?.since ?? clock.now();
    this.#missing = { tenantCluster: id, kind, reason, since };
    onChange();
  }

  /** Its message could hold any part of the kubeconfig. */
  #failUnforeseen(error: unknown): void {
    const kind = error instanceof Error ? error.name : typeof error;
    const reason = `its kubeconfig cannot be read: unexpected ${kind}; report it as a defect`;
    this.#fail('unread', reason, 'warn');
  }

  #retry(): void {
    this.#plan(Math.max(this.#sparingMs, BACKOFF.baseMs / 2 + this.#backoff.next()));
  }

  #plan(ms: number): void {
    // Compared this way round, so that what is not a number is the shortest wait as well.
    const wait = ms > SHORTEST_WAIT_MS ? ms : SHORTEST_WAIT_MS;
    this.#dueAt = this.#options.clock.monotonic() + wait;
  }

  /** Looks earlier than planned, but not more often than makes sense. */
  #pollSoon(): void {
    const wait = Math.max(this.#sparingMs, AFTER_FAILURE_MS);
    this.#dueAt = Math.min(this.#dueAt, this.#lookedAt + wait);
    this.#wake();
  }

  /** Looks at once; what is being read meanwhile does not count. */
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
 * The same connection, which reports answers that a newer kubeconfig may mend: a credential that is
 * not accepted any more, and a server that cannot be reached where it was.
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
