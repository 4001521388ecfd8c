import type { Ledger } from './ledger.ts';

/** 160 to 210 measured on disk, plus a margin for long names and many dimensions. */
const BYTES_PER_EVENT = 250;
/** 170 measured on disk for a request with four quantities, plus a margin for long names. */
const BYTES_PER_REQUEST = 250;
const HOUR_MS = 3_600_000;
/** Above 75 % delivered segments are deleted early (docs/reference/ledger-format.md#disk-use). */
const USABLE_SHARE = 0.75;
/** Above 95 % no window is closed (docs/reference/troubleshooting.md#the-volume). */
const FULL_SHARE = 0.95;

/** Bytes of a volume for every event of RETENTION (docs/reference/ledger-format.md#disk-use). */
export function volumeNeeded({
  eventsPerWindow,
  windowMs,
  retentionMs,
}: {
  /** Measured or expected events per window: about ten for each tenant cluster. */
  readonly eventsPerWindow: number;
  readonly windowMs: number;
  readonly retentionMs: number;
}): number {
  const events = Math.ceil(retentionMs / windowMs) * eventsPerWindow;
  return Math.ceil((events * BYTES_PER_EVENT) / USABLE_SHARE);
}

/**
 * The bytes that a volume needs besides {@link volumeNeeded} for the requests of AI gateways. Each
 * is stored for its hour and the bound for late ones: 1,000 requests/s take 3.6 GB with a bound of
 * two hours, and 30 GB with 24 hours
 * (docs/reference/ledger-format.md#requests-of-ai-gateways).
 */
export function volumeForRequests({
  requestsPerSecond,
  lateForMs,
}: {
  readonly requestsPerSecond: number;
  /** `spec.ingest.lateFor` */
  readonly lateForMs: number;
}): number {
  const requests = (requestsPerSecond * (HOUR_MS + lateForMs)) / 1_000;
  return Math.ceil((requests * BYTES_PER_REQUEST) / USABLE_SHARE);
}

/** Estimated bytes of a number of events. */
export function bytesOf(events: number): number {
  return events * BYTES_PER_EVENT;
}

/** Estimates for how many ms the volume has room at the stored events' rate, or undefined. */
export function stretchThatFits(
  ledger: Pick<Ledger, 'head' | 'lowWater' | 'stats'>,
  now: number,
): number | undefined {
  const { roomBytes = 0, oldestAt } = ledger.stats();
  const events = ledger.head() - ledger.lowWater();
  if (roomBytes === 0 || oldestAt === undefined || events === 0) return undefined;
  return (FULL_SHARE * roomBytes * (now - oldestAt)) / bytesOf(events);
}
