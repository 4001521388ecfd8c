import { Counter, Gauge, type Registry } from 'prom-client';
import { createLabelLimit, MOST_CLIENTS } from '../telemetry/registry.ts';

/** Why a request does not count. */
export type RefusalCause = 'time' | 'quantity' | 'series' | 'unknown-tenant' | 'repeat' | 'event';

/** Figures of the intake, for metrics and `GET /api/v1/intake`. */
export interface IntakeStats {
  /** Requests whose identity is remembered. */
  readonly entries: number;
  /** Sums that are not usage events yet. */
  readonly openSums: number;
  /** Up to when windows are closed, milliseconds since the epoch; 0 before the first. */
  readonly closedUntil: number;
}

export interface IntakeMetrics {
  readonly accepted: (client: string, requests: number, late: number) => void;
  readonly repeated: (client: string, requests: number) => void;
  readonly refused: (client: string, cause: RefusalCause) => void;
  readonly conflict: () => void;
}

/** The metrics of the intake, registered if there is a registry. */
export function createIntakeMetrics(
  registry: Registry | undefined,
  stats: () => IntakeStats,
): IntakeMetrics {
  const registers = registry === undefined ? [] : [registry];
  const requests = new Counter({
    name: 'meterfeed_intake_requests_total',
    help: 'Requests that AI gateways reported, by client and outcome',
    labelNames: ['client', 'outcome'],
    registers,
  });
  const refusals = new Counter({
    name: 'meterfeed_intake_refused_total',
    help: 'Reported requests that do not count, by client and cause',
    labelNames: ['client', 'cause'],
    registers,
  });
  const late = new Counter({
    name: 'meterfeed_intake_late_total',
    help: 'Reported requests that arrived after their window was closed and count as late usage',
    labelNames: ['client'],
    registers,
  });
  const conflicts = new Counter({
    name: 'meterfeed_intake_conflicts_total',
    help: 'Sums that the ledger did not store because it had another event with their id',
    registers,
  });
  const gauge = (name: string, help: string, read: (stats: IntakeStats) => number): void => {
    const made: Gauge = new Gauge({
      name,
      help,
      registers,
      collect: () => made.set(read(stats())),
    });
  };
  gauge(
    'meterfeed_intake_entries',
    'Reported requests whose identity is remembered',
    (s) => s.entries,
  );
  gauge('meterfeed_intake_open_sums', 'Sums that are not usage events yet', (s) => s.openSums);
  gauge(
    'meterfeed_intake_closed_timestamp_seconds',
    'Up to when windows of reported requests are closed; 0 before the first',
    ({ closedUntil }) => closedUntil / 1000,
  );
  const limit = createLabelLimit(MOST_CLIENTS);
  return {
    accepted: (name, count, lateOnes) => {
      const client = limit(name);
      requests.inc({ client, outcome: 'accepted' }, count);
      late.inc({ client }, lateOnes);
    },
    repeated: (name, count) => requests.inc({ client: limit(name), outcome: 'repeated' }, count),
    refused: (name, cause) => {
      const client = limit(name);
      requests.inc({ client, outcome: 'refused' });
      refusals.inc({ client, cause });
    },
    conflict: () => conflicts.inc(),
  };
}
