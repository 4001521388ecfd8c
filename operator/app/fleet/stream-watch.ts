import { loadMemory } from '../../discovery/memory.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Ledger, WriteOutcome } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { type Gap, GAP_PREFIX, Gaps } from '../../metering/windows/gaps.ts';
import { REPORT_PREFIX, WindowReports } from '../../metering/windows/report-store.ts';
import type { WindowReport } from '../../metering/windows/window-report.ts';
import { type MeterReport, readClusters, readReport } from './meter-report.ts';

/** A tenant that left, and when (milliseconds since the epoch). */
export interface Departure {
  readonly tenant: Tenant;
  readonly at: number;
}

interface SomeGaps {
  readonly open: readonly Gap[];
  readonly past: readonly Gap[];
}

/** Prefix of the gaps of Prometheus measurements. */
const PROMETHEUS_GAP_PREFIX = 'prometheus/gap/';
/** Written by the hub: when a tenant left, by tenant, for acknowledged departures. */
const ACKNOWLEDGED_PREFIX = 'hub/departed/';
/** Pause between two passes. */
const PASS_MS = 2_000;
/** Reports of windows of this newest period are read again in each pass. */
const HOUR_MS = 3_600_000;

/** A stream, read from its records by a process that is not its meter. */
export class StreamWatch {
  readonly #options: ConstructorParameters<typeof StreamWatch>[0];
  readonly #listeners = new Set<() => void>();
  #report: MeterReport | undefined;
  #reportedAt: number | undefined;
  #tenants: ReadonlyMap<string, Tenant> = new Map();
  #clusters: readonly TenantCluster[] = [];
  #gaps: SomeGaps = { open: [], past: [] };
  readonly #windows = new WindowReports();
  #departed: readonly Departure[] = [];
  /** By tenant; undefined before the first read. */
  #acknowledged: Map<string, number> | undefined;
  #lastWindowEnd: number | undefined;

  /** `retentionMs` is RETENTION; earlier gaps are past. */
  constructor(options: {
    readonly ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords' | 'stats'>;
    readonly retentionMs: number;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  /** Undefined until a meter has reported in a known form. */
  report(): MeterReport | undefined {
    return this.#report;
  }

  /**
   * Time without a new report of the meter, milliseconds of this process's monotonic clock.
   * Undefined before the first report.
   */
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

  /** Gaps from before RETENTION. */
  pastGaps(): readonly Gap[] {
    return this.#gaps.past;
  }

  /** Newest first. Each is read on demand. */
  windows(): IteratorObject<WindowReport, undefined> {
    return this.#windows.list();
  }

  /** Departures that the operator accepted and this hub has not acknowledged. Offboard them. */
  departures(): readonly Departure[] {
    return this.#departed.filter(({ tenant, at }) => this.#acknowledged?.get(tenant.id) !== at);
  }

  /** Durably records that all destinations know of a departure. */
  async acknowledge({ tenant, at }: Departure): Promise<WriteOutcome> {
    const change = { key: ACKNOWLEDGED_PREFIX + tenant.id, value: String(at) };
    const outcome = await this.#options.ledger.writeRecords([change]);
    if (outcome.kind === 'written') this.#acknowledged?.set(tenant.id, at);
    return outcome;
  }

  /** Calls the listener after a pass with changes. The returned function ends the subscription. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Reads repeatedly until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    let stated = '';
    while (!signal.aborted) {
      const problem = await this.refresh().then(() => '', errorText);
      if (problem !== '' && problem !== stated) logger.warn(`[fleet] ${problem}`);
      stated = problem;
      await clock.sleep(PASS_MS, signal).catch(() => undefined);
    }
  }

  /** Reads the current records. Rejects if they cannot be read, and keeps the former state. */
  async refresh(): Promise<void> {
    const { ledger, clock } = this.#options;
    const report = await readReport(ledger);
    const { lastWindowEnd } = ledger.stats();
    const before = this.#report;
    const isNewRoster = report?.revision !== before?.revision;
    const isNewWindow = lastWindowEnd !== this.#lastWindowEnd;
    if (isNewRoster || before === undefined) await this.#readRoster();
    if (isNewWindow) await this.#readWindows(lastWindowEnd);
    if (isNewWindow || report?.gaps !== before?.gaps) {
      this.#gaps = await readGaps(ledger, clock.now() - this.#options.retentionMs);
    }
    // Change the state only after all reads have succeeded.
    if (report?.beat !== before?.beat || isNewRoster) this.#reportedAt = clock.monotonic();
    this.#report = report;
    this.#lastWindowEnd = lastWindowEnd;
    if (isNewRoster || isNewWindow || this.departures().length > 0) {
      for (const listener of this.#listeners) listener();
    }
  }

  async #readRoster(): Promise<void> {
    const { ledger } = this.#options;
    const { memory } = await loadMemory(ledger);
    const present = [...memory.tenants].flatMap(([id, { tenant, presence }]) =>
      presence.kind === 'offboarded' ? [] : [[id, tenant] as const],
    );
    const departed = [...memory.tenants.values()].flatMap(({ tenant, presence }) =>
      presence.kind === 'offboarded' && presence.accepted ? { tenant, at: presence.at } : [],
    );
    this.#acknowledged ??= await readAcknowledged(ledger);
    this.#clusters = await readClusters(ledger);
    this.#tenants = new Map(present);
    this.#departed = departed;
    await this.#forgetAcknowledged();
  }

  /** Forgets departures of tenants that discovery has forgotten, or that are back. */
  async #forgetAcknowledged(): Promise<void> {
    const departed = new Set(this.#departed.map(({ tenant }) => tenant.id));
    const gone = [...(this.#acknowledged?.keys() ?? [])].filter((id) => !departed.has(id));
    if (gone.length === 0) return;
    const changes = gone.map((id) => ({ key: ACKNOWLEDGED_PREFIX + id, value: undefined }));
    const outcome = await this.#options.ledger.writeRecords(changes);
    if (outcome.kind === 'written') for (const id of gone) this.#acknowledged?.delete(id);
  }

  /** Reads all reports first, later only those of the newest hour. */
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

async function readAcknowledged(ledger: Pick<Ledger, 'records'>): Promise<Map<string, number>> {
  const acknowledged = new Map<string, number>();
  for await (const [key, at] of ledger.records(ACKNOWLEDGED_PREFIX)) {
    acknowledged.set(key.slice(ACKNOWLEDGED_PREFIX.length), Number(at));
  }
  return acknowledged;
}

async function readGaps(ledger: Pick<Ledger, 'records'>, pastBefore: number): Promise<SomeGaps> {
  const kinds: SomeGaps[] = [];
  for (const prefix of [GAP_PREFIX, PROMETHEUS_GAP_PREFIX]) {
    const gaps = new Gaps(prefix);
    gaps.restore(await Array.fromAsync(ledger.records(prefix)));
    gaps.prune(pastBefore, 0);
    kinds.push({ open: gaps.list(), past: gaps.past() });
  }
  return { open: kinds.flatMap(({ open }) => open), past: kinds.flatMap(({ past }) => past) };
}
