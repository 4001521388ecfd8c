import { createHash } from 'node:crypto';
import type { LimitFunction } from 'p-limit';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { linkAbort, pause } from '../kubernetes/abort.ts';
import { createBackoff } from '../model/backoff.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { alertConnection } from './alert-connection.ts';
import type { OpenKubeconfig } from './open-kubeconfig.ts';
import type { KubeconfigSource } from './kubeconfig-source.ts';
import type { FailedTenantApi, TenantApi } from './tenant-api.ts';

export interface AccessKeeperOptions {
  readonly cluster: TenantCluster;
  readonly source: KubeconfigSource;
  readonly open: OpenKubeconfig;
  /** Shared with all other tenant clusters. */
  readonly limit: LimitFunction;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly onChange: () => void;
}

/** Keeps the way to one tenant cluster's API: reads the kubeconfig again and again, and follows its changes. */
export interface AccessKeeper {
  api(): TenantApi | undefined;
  failure(): FailedTenantApi | undefined;
  /** What discovery says of the tenant cluster now. */
  update(cluster: TenantCluster): void;
  /** The settings have changed: what was accepted by the former ones is looked at again. */
  reconsider(): void;
  /** Until the signal aborts; the connection is closed then. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

/** Between two looks at a kubeconfig that is good, give or take a fifth. */
const LOOK_AGAIN_MS = 300_000;
const BACKOFF = { baseMs: 20_000, capMs: 300_000 } as const;
/** After trouble with the connection, and at most as often. */
const TROUBLE_MS = 30_000;
const SHORTEST_WAIT_MS = 1_000;

/** A connection, and what it was made from. */
interface Held {
  readonly fingerprint: string;
  readonly connection: Connection;
  readonly api: TenantApi;
  /** When its credential ends, milliseconds since the epoch. */
  readonly validUntil: number | undefined;
}

export function createAccessKeeper(options: AccessKeeperOptions): AccessKeeper {
  const { source, open, limit, clock, random, logger } = options;
  const backoff = createBackoff({ ...BACKOFF, random });
  let cluster = options.cluster;
  let held: Held | undefined;
  let failure: FailedTenantApi | undefined;
  /** How often what decides about its kubeconfig has changed. */
  let moves = 0;
  /** Monotonic. */
  let lookedAt = Number.NEGATIVE_INFINITY;
  let dueAt = 0;
  /** Accepted by the settings in force. */
  let accepted = false;
  let wake = (): void => undefined;

  async function look(signal: AbortSignal): Promise<void> {
    const asked = moves;
    const read = await source(cluster, signal);
    lookedAt = clock.monotonic();
    if (signal.aborted) return;
    if (asked !== moves) {
      // What was asked where it was before says nothing of where it is.
      plan(0);
      return;
    }
    if (read.kind === 'unknown' && held !== undefined && accepted) {
      logger.debug(`[controller] tenant API of ${cluster.id}: kept as it is: ${read.reason}`);
      retry();
      return;
    }
    if (read.kind !== 'found') {
      fail(read.reason, 'debug');
      return;
    }
    const place = `${cluster.namespace}/${cluster.name}/`;
    const fingerprint = createHash('sha256')
      .update(place + read.text.reveal())
      .digest('hex');
    if (accepted && held?.fingerprint === fingerprint && !isOver(held.validUntil)) {
      succeed();
      return;
    }
    const opened = open(read.text, cluster);
    if (opened.kind === 'refused') {
      fail(`${read.where}: ${opened.reason}`, 'warn');
      return;
    }
    const connection = alertConnection(opened.connection, soon);
    const { validUntil } = opened;
    replace({ fingerprint, connection, validUntil, api: { cluster, connection } });
    logger.info(`[controller] tenant API of ${cluster.id}: kubeconfig accepted from ${read.where}`);
    succeed();
  }

  function isOver(validUntil: number | undefined): boolean {
    return validUntil !== undefined && validUntil <= clock.now();
  }

  /** The new connection is known before the old one ends. */
  function replace(next: Held | undefined): void {
    const previous = held;
    held = next;
    options.onChange();
    void previous?.connection.close();
  }

  function succeed(): void {
    accepted = true;
    backoff.reset();
    const left = (held?.validUntil ?? Number.POSITIVE_INFINITY) - clock.now();
    const usual = LOOK_AGAIN_MS * (0.8 + 0.4 * random());
    plan(Math.min(usual, left));
    if (failure === undefined) return;
    failure = undefined;
    options.onChange();
  }

  function fail(reason: string, level: 'warn' | 'debug'): void {
    retry();
    if (held !== undefined) replace(undefined);
    if (failure?.reason === reason) return;
    logger[level](`[controller] tenant API of ${cluster.id}: ${reason}`);
    failure = { tenantCluster: cluster.id, reason, since: failure?.since ?? clock.now() };
    options.onChange();
  }

  function retry(): void {
    plan(BACKOFF.baseMs / 2 + backoff.next());
  }

  function plan(ms: number): void {
    dueAt = clock.monotonic() + Math.max(SHORTEST_WAIT_MS, ms);
  }

  /** Looks earlier than planned, but not more often than makes sense. */
  function soon(): void {
    dueAt = Math.min(dueAt, lookedAt + TROUBLE_MS);
    wake();
  }

  /** At once; what is being read at the moment does not count. */
  function lookAgain(): void {
    moves += 1;
    dueAt = 0;
    wake();
  }

  async function waitUntilDue(signal: AbortSignal): Promise<void> {
    for (let left = dueAt - clock.monotonic(); left > 0; left = dueAt - clock.monotonic()) {
      const link = linkAbort(signal);
      wake = link.abort;
      await pause(clock, left, link.signal);
      link.release();
      if (signal.aborted) return;
    }
  }

  return {
    api: () => held?.api,
    // Without nodes of its own it needs no kubeconfig (design 7, "Own-node tenants").
    failure: () => (cluster.nodeMode === 'shared' ? undefined : failure),
    update: (next) => {
      const moved =
        next.namespace !== cluster.namespace ||
        next.name !== cluster.name ||
        next.kubeconfigFile !== cluster.kubeconfigFile ||
        next.nodeMode !== cluster.nodeMode;
      cluster = next;
      if (held !== undefined) held = { ...held, api: { ...held.api, cluster } };
      if (!moved) return;
      lookAgain();
    },
    reconsider: () => {
      accepted = false;
      lookAgain();
    },
    run: async (signal) => {
      while (!signal.aborted) {
        dueAt = clock.monotonic() + BACKOFF.capMs;
        await limit(() => (signal.aborted ? Promise.resolve() : look(signal)));
        await waitUntilDue(signal);
      }
      const last = held;
      held = undefined;
      await last?.connection.close();
    },
  };
}
