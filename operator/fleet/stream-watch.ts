import { loadMemory } from '../discovery/memory.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { errorText } from '../model/error-text.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createGaps, type Gap, GAP_PREFIX } from '../windows/gaps.ts';
import { createWindowReports, REPORT_PREFIX } from '../windows/report-store.ts';
import type { WindowReport } from '../windows/window-report.ts';
import { type MeterReport, readClusters, readFarewells, readReport } from './meter-report.ts';

/** A stream as its records show it to a process that is not its meter. */
export interface StreamWatch {
  /** Undefined while no meter has told of itself that this program knows. */
  report(): MeterReport | undefined;
  /** How long the meter has told nothing new, by this process's monotonic clock; undefined while nothing is known. */
  silentMs(): number | undefined;
  /** Who is a customer there. */
  tenants(): readonly Tenant[];
  findTenant(id: string): Tenant | undefined;
  clusters(): readonly TenantCluster[];
  gaps(): readonly Gap[];
  /** Those of before RETENTION. */
  pastGaps(): readonly Gap[];
  /** Newest first; each is read when it is asked for. */
  windows(): IteratorObject<WindowReport, undefined>;
  /** Tenants that have left and are to be ended at the destinations. */
  farewells(): readonly Tenant[];
  /** Looks at what there is now. Rejects when it cannot be read: what is known stays. */
  round(): Promise<void>;
  /** Rounds until the signal is aborted. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** Told after a round that brought news. Ends with the returned function. */
  subscribe(listener: () => void): () => void;
}

export interface StreamWatchOptions {
  readonly ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords' | 'stats'>;
  /** RETENTION, milliseconds: gaps of before are past. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface SomeGaps {
  readonly open: readonly Gap[];
  readonly past: readonly Gap[];
}

/** Where measurements of Prometheus keep theirs. */
const PROMETHEUS_GAP_PREFIX = 'prometheus/gap/';
/** Between two looks. */
const ROUND_MS = 2_000;
/** Reports of windows that are read anew, of the newest hours. */
const HOUR_MS = 3_600_000;

export function createStreamWatch(options: StreamWatchOptions): StreamWatch {
  return new RecordWatch(options);
}

class RecordWatch implements StreamWatch {
  readonly #options: StreamWatchOptions;
  readonly #listeners = new Set<() => void>();
  #report: MeterReport | undefined;
  #reportedAt: number | undefined;
  #tenants: ReadonlyMap<string, Tenant> = new Map();
  #clusters: readonly TenantCluster[] = [];
  #gaps: SomeGaps = { open: [], past: [] };
  readonly #windows = createWindowReports();
  #farewells: readonly Tenant[] = [];
  #lastWindowEnd: number | undefined;

  constructor(options: StreamWatchOptions) {
    this.#options = options;
  }

  report(): MeterReport | undefined {
    return this.#report;
  }

  silentMs(): number | undefined {
    if (this.#reportedAt === undefined) return undefined;
    return this.#options.clock.monotonic() - this.#reportedAt;
  }

  tenants(): readonly Tenant[] {
    return [...this.#tenants.values()];
  }

  findTenant(id: string): Tenant | undefined {
    return this.#tenants.get(id);
  }

  clusters(): readonly TenantCluster[] {
    return this.#clusters;
  }

  gaps(): readonly Gap[] {
    return this.#gaps.open;
  }

  pastGaps(): readonly Gap[] {
    return this.#gaps.past;
  }

  windows(): IteratorObject<WindowReport, undefined> {
    return this.#windows.list();
  }

  farewells(): readonly Tenant[] {
    return this.#farewells;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    let said = '';
    while (!signal.aborted) {
      const problem = await this.round().then(() => '', errorText);
      if (problem !== '' && problem !== said) logger.warn(`[fleet] ${problem}`);
      said = problem;
      await clock.sleep(ROUND_MS, signal).catch(() => undefined);
    }
  }

  async round(): Promise<void> {
    const { ledger, clock } = this.#options;
    const report = await readReport(ledger);
    const farewells = await readFarewells(ledger);
    const { lastWindowEnd } = ledger.stats();
    const before = this.#report;
    const isNewRoster = report?.revision !== before?.revision;
    const isNewWindow = lastWindowEnd !== this.#lastWindowEnd;
    if (isNewRoster || before === undefined) await this.#readRoster();
    if (isNewWindow) await this.#readWindows(lastWindowEnd);
    if (isNewWindow || report?.gaps !== before?.gaps) {
      this.#gaps = await readGaps(ledger, clock.now() - this.#options.retentionMs);
    }
    // Nothing is taken for known before all of it is.
    if (report?.beat !== before?.beat || isNewRoster) this.#reportedAt = clock.monotonic();
    this.#report = report;
    this.#farewells = farewells;
    this.#lastWindowEnd = lastWindowEnd;
    if (isNewRoster || isNewWindow || farewells.length > 0) {
      for (const listener of this.#listeners) listener();
    }
  }

  async #readRoster(): Promise<void> {
    const { ledger } = this.#options;
    const { memory } = await loadMemory(ledger);
    const present = [...memory.tenants].flatMap(([id, { tenant, presence }]) =>
      presence.kind === 'offboarded' ? [] : [[id, tenant] as const],
    );
    this.#clusters = await readClusters(ledger);
    this.#tenants = new Map(present);
  }

  /** All there are at first, then those of the newest hours. */
  async #readWindows(lastWindowEnd: number | undefined): Promise<void> {
    const { ledger } = this.#options;
    for (const prefix of this.#windowPrefixes(lastWindowEnd)) {
      this.#windows.restore(await Array.fromAsync(ledger.records(prefix)));
    }
    this.#windows.trim();
  }

  #windowPrefixes(lastWindowEnd: number | undefined): readonly string[] {
    const before = this.#lastWindowEnd;
    if (before === undefined || lastWindowEnd === undefined) return [REPORT_PREFIX];
    const hour = (at: number): number => Math.floor(at / HOUR_MS);
    const hours: string[] = [];
    for (let at = hour(before); at <= hour(lastWindowEnd) && hours.length < 48; at += 1) {
      hours.push(REPORT_PREFIX + new Date(at * HOUR_MS).toISOString().slice(0, 13));
    }
    return hours;
  }
}

async function readGaps(ledger: Pick<Ledger, 'records'>, pastBefore: number): Promise<SomeGaps> {
  const kinds: SomeGaps[] = [];
  for (const prefix of [GAP_PREFIX, PROMETHEUS_GAP_PREFIX]) {
    const gaps = createGaps(prefix);
    gaps.restore(await Array.fromAsync(ledger.records(prefix)));
    gaps.prune(pastBefore, 0);
    kinds.push({ open: gaps.list(), past: gaps.past() });
  }
  return { open: kinds.flatMap(({ open }) => open), past: kinds.flatMap(({ past }) => past) };
}
