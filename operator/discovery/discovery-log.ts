import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Discovered } from './discover.ts';
import type { OffboardingStep } from './offboarding.ts';

/** A lasting failure is logged this often. */
const REPEAT_FAILURE_MS = 60_000;

const NOTHING_FOUND =
  '[discovery] found 0 tenant cluster(s); check the label app=tenant-cluster or app=vcluster, ' +
  'the list permission, and WATCH_NAMESPACES or spec.discovery.namespaces of the MeteringPolicy';

/**
 * Logs the results of each pass (docs/reference/troubleshooting.md#log-lines), each once per change
 * unless specified otherwise.
 */
export class DiscoveryLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  #platform: 'present' | 'absent' | undefined;
  #enriched = 0;
  #waiting = 0;
  #problems: ReadonlySet<string> = new Set();
  #failure: { readonly reason: string; readonly at: number } | undefined;
  #isFirst = true;

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  succeeded(pass: {
    readonly previous: Discovered;
    readonly next: Discovered;
    readonly step: OffboardingStep;
    readonly platform: 'present' | 'absent';
  }): void {
    const { previous, next, step, platform } = pass;
    if (this.#failure !== undefined) this.#logger.info('[discovery] succeeding again');
    this.#failure = undefined;
    this.#logPlatform(platform, next.enriched);
    this.#logFound(previous, next);
    this.#logTenants(previous, next);
    for (const problem of next.problems) {
      if (!this.#problems.has(problem)) this.#logger.warn(`[discovery] ${problem}`);
    }
    this.#problems = new Set(next.problems);
    this.#logOffboarding(step);
    this.#isFirst = false;
  }

  failed(reason: string, stored: number): void {
    const now = this.#clock.monotonic();
    const last = this.#failure;
    if (last?.reason === reason && now - last.at < REPEAT_FAILURE_MS) return;
    this.#failure = { reason, at: now };
    this.#logger.error(
      `[discovery] failed: ${reason}; keeping ${stored} tenant cluster(s) as they were`,
    );
  }

  #logFound(previous: Discovered, next: Discovered): void {
    const count = next.clusters.length;
    if (count === 0) {
      this.#logger.warn(NOTHING_FOUND);
      return;
    }
    const changed = this.#isFirst || !sameIds(previous, next);
    this.#logger[changed ? 'info' : 'debug'](`[discovery] found ${count} tenant cluster(s)`);
  }

  #logPlatform(next: 'present' | 'absent', count: number): void {
    if (next !== this.#platform && next === 'absent') {
      this.#logger.info('[discovery] platform API is absent; falling back to workload scanning');
    }
    if (next === 'present' && (next !== this.#platform || count !== this.#enriched)) {
      this.#logger.info(`[discovery] enriched ${count} tenant cluster(s) from the platform`);
    }
    this.#platform = next;
    this.#enriched = count;
  }

  #logTenants(previous: Discovered, next: Discovered): void {
    const before = new Map(previous.clusters.map(({ id, tenant }) => [id, tenant]));
    for (const { id, tenant } of next.clusters) {
      const old = before.get(id);
      if (old === undefined || old === tenant) continue;
      const change = `from ${JSON.stringify(old)} to ${JSON.stringify(tenant)}`;
      this.#logger.warn(
        `[discovery] ${id}: customer changes ${change}; later usage belongs to the new one`,
      );
    }
  }

  #logOffboarding({ offboarded, returned, waiting }: OffboardingStep): void {
    for (const { id } of offboarded) {
      this.#logger.info(`[discovery] tenant ${JSON.stringify(id)} is gone; offboarding it`);
    }
    for (const { id } of returned) {
      this.#logger.info(`[discovery] tenant ${JSON.stringify(id)} is back after its offboarding`);
    }
    if (waiting.count > this.#waiting) {
      const share = `${waiting.count} of ${waiting.of} tenants are gone`;
      this.#logger.warn(
        `[discovery] ${share}: too many at once; offboarding waits for a further grace`,
      );
    }
    this.#waiting = waiting.count;
  }
}

function sameIds(a: Discovered, b: Discovered): boolean {
  if (a.clusters.length !== b.clusters.length) return false;
  return a.clusters.every(({ id }, index) => id === b.clusters[index]?.id);
}
