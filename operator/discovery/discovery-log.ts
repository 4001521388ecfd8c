import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Discovered } from './discover.ts';
import type { OffboardingStep } from './offboarding.ts';

/** What discovery says of each round (docs/operations.md#log-lines), each thing once per change unless specified otherwise. */
export interface DiscoveryLog {
  succeeded(round: {
    readonly previous: Discovered;
    readonly next: Discovered;
    readonly step: OffboardingStep;
    readonly platform: 'present' | 'absent';
  }): void;
  failed(reason: string, kept: number): void;
}

/** A failure that lasts is repeated this often. */
const REPEAT_FAILURE_MS = 60_000;

const NOTHING_FOUND =
  '[discovery] found 0 tenant cluster(s); check the label app=tenant-cluster or app=vcluster, ' +
  'the list permission, and WATCH_NAMESPACES or spec.discovery.namespaces of the MeteringPolicy';

export function createDiscoveryLog(logger: Logger, clock: Clock): DiscoveryLog {
  let platform: 'present' | 'absent' | undefined;
  let enriched = 0;
  let held = 0;
  let problems: ReadonlySet<string> = new Set();
  let failure: { readonly reason: string; readonly at: number } | undefined;
  let first = true;

  function sayFound(previous: Discovered, next: Discovered): void {
    const count = next.clusters.length;
    if (count === 0) {
      logger.warn(NOTHING_FOUND);
      return;
    }
    const changed = first || !sameIds(previous, next);
    const line = `[discovery] found ${count} tenant cluster(s)`;
    if (changed) logger.info(line);
    else logger.debug(line);
  }

  function sayPlatform(next: 'present' | 'absent', count: number): void {
    if (next !== platform && next === 'absent') {
      logger.info('[discovery] platform API is absent; falling back to workload scanning');
    }
    if (next === 'present' && (next !== platform || count !== enriched)) {
      logger.info(`[discovery] enriched ${count} tenant cluster(s) from the platform`);
    }
    platform = next;
    enriched = count;
  }

  function sayTenants(previous: Discovered, next: Discovered): void {
    const before = new Map(previous.clusters.map(({ id, tenant }) => [id, tenant]));
    for (const { id, tenant } of next.clusters) {
      const old = before.get(id);
      if (old === undefined || old === tenant) continue;
      const change = `from ${JSON.stringify(old)} to ${JSON.stringify(tenant)}`;
      logger.warn(
        `[discovery] ${id}: customer changes ${change}; usage from now on is the new one’s`,
      );
    }
  }

  function sayOffboarding({ offboarded, returned, held: waiting }: OffboardingStep): void {
    for (const { id } of offboarded) {
      logger.info(`[discovery] tenant ${JSON.stringify(id)} is gone; offboarding it`);
    }
    for (const { id } of returned) {
      logger.info(`[discovery] tenant ${JSON.stringify(id)} is back after its offboarding`);
    }
    if (waiting.count > held) {
      const share = `${waiting.count} of ${waiting.of} tenants are gone`;
      logger.warn(`[discovery] ${share}: too many at once; offboarding waits for a further grace`);
    }
    held = waiting.count;
  }

  return {
    succeeded: ({ previous, next, step, platform: platformNow }) => {
      if (failure !== undefined) logger.info('[discovery] succeeding again');
      failure = undefined;
      sayPlatform(platformNow, next.enriched);
      sayFound(previous, next);
      sayTenants(previous, next);
      for (const problem of next.problems) {
        if (!problems.has(problem)) logger.warn(`[discovery] ${problem}`);
      }
      problems = new Set(next.problems);
      sayOffboarding(step);
      first = false;
    },
    failed: (reason, kept) => {
      const now = clock.monotonic();
      if (failure?.reason === reason && now - failure.at < REPEAT_FAILURE_MS) return;
      failure = { reason, at: now };
      logger.error(`[discovery] failed: ${reason}; keeping ${kept} tenant cluster(s) as they were`);
    },
  };
}

function sameIds(a: Discovered, b: Discovered): boolean {
  if (a.clusters.length !== b.clusters.length) return false;
  return a.clusters.every(({ id }, index) => id === b.clusters[index]?.id);
}
