import type { DestinationSettings } from '../config/settings.ts';
import type { Tenant } from '../model/tenant.ts';
import type { WriteOutcome } from '../ledger/ledger.ts';
import { backoffMs } from './backoff.ts';
import type { DestinationStatus } from './destination-status.ts';
import type { Trouble } from './entry.ts';
import { createFeederParts, type FeederOptions } from './feeder-parts.ts';
import { feederStatus } from './feeder-status.ts';
import { createLoop, type Rest } from './loop.ts';
import { createOperations, type Operations } from './operations.ts';
import type { LaneReport } from './parked-lane.ts';
import { createReconcile, type ReconcileOutcome } from './reconcile.ts';
import type { ReconcileQuery } from './reconcile-sums.ts';
import { findStartPosition, lossText } from './start-position.ts';

/** How often a destination that an operator must mend is tried again. */
const PROBE_INTERVAL_MS = 300_000;
/** No Retry-After is believed beyond this. */
const LONGEST_WAIT_MS = 3_600_000;

/** Delivers the ledger to one destination, in order, at least once (design 10). */
export interface Feeder extends Operations {
  readonly settings: DestinationSettings;
  /** Begins delivering; a suspended one only finds its place. */
  start(): void;
  /** Ends after the batch under way, within ten seconds, and closes the destination. */
  stop(): Promise<void>;
  status(): DestinationStatus;
  offboard(tenant: Tenant): Promise<WriteOutcome>;
  /** The catalogue may have changed. */
  wake(): void;
  reconcile(query: ReconcileQuery, signal: AbortSignal): Promise<ReconcileOutcome>;
}

export function createFeeder(options: FeederOptions): Feeder {
  const { settings, destination, ledger, clock } = options;
  const { name } = settings;
  const parts = createFeederParts(options);
  const { log, bootstrap, gate, pending, circuit, health } = parts;
  let opened = false;
  let loaded = false;
  let tenantsChanged = false;

  /** Finds the cursor and reads what was set aside; nothing is sent before it has. */
  async function open(): Promise<Trouble | undefined> {
    const start = await findStartPosition(ledger, parts.records, settings, clock.now());
    if (start.kind === 'failed') return { kind: 'retry', reason: start.message };
    const lost = lossText(start, ledger.lowWater());
    if (lost !== undefined) options.logger.error(`[${name}] ${lost}`);
    pending.reset(start.sequence);
    await parts.inFlight.load(start.state.resentUntil);
    if (!loaded) {
      await parts.deadLetters.load();
      await parts.acknowledgements.load();
      await parts.parked.load();
      await parts.offboarding.load();
      parts.replayLane.wake();
    }
    loaded = true;
    opened = true;
    return undefined;
  }

  async function step(signal: AbortSignal): Promise<Rest> {
    const outcome = await advance(signal).catch((error: unknown): Trouble => {
      const reason = error instanceof Error ? error.message : String(error);
      return { kind: 'retry', reason: `delivery failed: ${reason}` };
    });
    if (outcome === undefined) return { kind: 'none' };
    if (outcome === 'suspended') return { kind: 'end' };
    if (outcome !== 'idle') return { kind: 'trouble', ms: waitFor(outcome) };
    health.well();
    const ms = dueIn();
    const position = pending.position();
    const changed = (ended: AbortSignal): Promise<void> => ledger.changed(position, ended);
    return { kind: 'news', changed, ...(ms !== undefined && { ms }) };
  }

  /** Does the next thing there is to do. */
  async function advance(signal: AbortSignal): Promise<Trouble | 'idle' | 'suspended' | undefined> {
    if (!opened) return open();
    if (settings.suspend) return 'suspended';
    const unready = await bootstrap.ensure(signal);
    if (unready !== undefined) return unready;
    if (tenantsChanged) {
      tenantsChanged = false;
      const failed = await gate.refresh(signal);
      if (failed !== undefined) tenantsChanged = true;
      if (failed?.kind === 'hold') return failed;
    }
    if (pending.isEmpty()) {
      const outcome = await readOn(signal);
      if (outcome !== undefined || pending.isEmpty()) return outcome;
    }
    const trouble = await sendOpen(signal);
    return (await commit()) ?? trouble;
  }

  /** Serves what was set aside, then reads the next batch. */
  async function readOn(signal: AbortSignal): Promise<Trouble | 'idle' | undefined> {
    const parked = await parts.parkedLane(signal);
    account(parked);
    const replayed = parked.trouble === undefined ? await parts.replayLane.step(signal) : undefined;
    if (replayed !== undefined) account(replayed);
    const trouble =
      parked.trouble ??
      replayed?.trouble ??
      (await parts.offboarding.step(pending.position(), signal));
    if (trouble !== undefined) return trouble;
    const { batchEvents, batchBytes } = destination.limits;
    const failure = await pending.read({
      events: batchEvents,
      ...(batchBytes !== undefined && { bytes: batchBytes }),
      bytesOf: (event) => destination.encodedBytes?.(event) ?? 0,
      wants: parts.wants,
    });
    if (failure !== undefined) return { kind: 'retry', reason: failure.message };
    const moved = parked.moved || replayed?.moved === true;
    return pending.isEmpty() && !moved ? 'idle' : undefined;
  }

  async function sendOpen(signal: AbortSignal): Promise<Trouble | undefined> {
    const tried = circuit.choose(pending.open());
    if (tried.length === 0) return undefined;
    const { verdicts, trouble } = await parts.sendRound(tried, signal);
    pending.settle(verdicts);
    for (const { sequence, event } of tried) {
      const verdict = verdicts.get(sequence);
      if (verdict === undefined) continue;
      circuit.clear(sequence);
      if (verdict.kind === 'dead') {
        const what = `event ${event.id} of tenant ${event.tenant}`;
        log.warn(verdict.reason, `[${name}] dead letter: ${what}: ${verdict.reason}`);
      }
    }
    const kinds = [...verdicts.values()].map(({ kind }) => kind);
    account({
      moved: false,
      accepted: kinds.filter((kind) => kind === 'delivered').length,
      rejected: kinds.filter((kind) => kind === 'dead').length,
    });
    if (trouble === undefined) return undefined;
    health.retried(tried.length - verdicts.size);
    if (trouble.kind === 'retry') circuit.failed(tried, trouble.afterMs !== undefined);
    const culprit = circuit.culprit(pending.open());
    if (culprit !== undefined) {
      circuit.clear(culprit.sequence);
      const reason = `keeps failing while others are accepted: ${trouble.reason}`;
      parts.parked.add(culprit.event.tenant, reason);
    }
    return trouble;
  }

  /** Moves the cursor over what is settled, even when the rest is in trouble. */
  async function commit(): Promise<Trouble | undefined> {
    const report = await pending.commit((passed) => parts.books.recordsOf(passed));
    if (report.kind === 'committed') {
      parts.books.written(report.passed);
      health.skipped(report.passed.filter(({ verdict }) => verdict.kind === 'skipped').length);
      return undefined;
    }
    const current = ledger.cursors().find(({ destination }) => destination === name);
    // Somebody else has moved the cursor: begin again from where it is.
    if (current?.sequence !== pending.position()) opened = false;
    return { kind: 'retry', reason: report.message };
  }

  function account({ accepted, rejected }: LaneReport): void {
    health.accepted(accepted);
    health.rejected(rejected);
    if (accepted > 0) circuit.succeeded();
  }

  /** Notes the trouble and says how long to wait before the next attempt, milliseconds. */
  function waitFor(trouble: Trouble): number {
    health.failed(trouble);
    const where = opened && !bootstrap.isReady() ? `[bootstrap] warning: ${name}:` : `[${name}]`;
    log.warn(trouble.reason, `${where} ${trouble.reason}`);
    if (trouble.kind === 'hold') {
      circuit.trip();
      return PROBE_INTERVAL_MS;
    }
    const failures = Math.max(1, circuit.failures(), bootstrap.failures());
    const wait = Math.max(trouble.afterMs ?? 0, backoffMs(failures, options.random));
    return Math.min(LONGEST_WAIT_MS, wait);
  }

  function dueIn(): number | undefined {
    const times = [parts.parked.dueIn(), parts.replayLane.dueIn(), parts.offboarding.dueIn()];
    const due = times.filter((time) => time !== undefined);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  const loop = createLoop(clock, step);
  const unsubscribe = options.tenants.subscribe(() => {
    tenantsChanged = true;
    loop.news();
  });
  const operations = createOperations({
    settings,
    destination,
    ledger,

    records: parts.records,
    deadLetters: parts.deadLetters,
    replays: parts.replays,
    paused: (action) =>
      loop.pausedWhile(async () => {
        opened = false;
        return action();
      }),
    wakeReplay: () => {
      parts.replayLane.wake();
      loop.urge();
    },
  });

  return {
    ...operations,
    settings,
    start: () => loop.start(),
    stop: async () => {
      unsubscribe();
      await loop.stop();
      await destination.close();
    },
    status: () => feederStatus(options, parts),
    offboard: async (tenant) => {
      const outcome = await parts.offboarding.request(tenant);
      loop.news();
      return outcome;
    },
    wake: () => loop.news(),
    reconcile: createReconcile({
      destination,
      ledger,
      records: parts.records,
      deadLetters: parts.deadLetters,
      acknowledgements: parts.acknowledgements,
      wants: parts.wants,
      cursor: () => ledger.cursors().find((cursor) => cursor.destination === name)?.sequence ?? 0,
      describe: (tenant) => parts.directory.find(tenant),
    }),
  };
}
