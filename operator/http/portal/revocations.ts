import { randomUUID } from 'node:crypto';
import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { LONGEST_MS, type PortalClaims } from './portal-tokens.ts';

const SERIES = 'portal/series/';
const REVOKED = 'portal/revoked/';
/** The series of a tenant whose tokens were never revoked all at once. */
const FIRST_SERIES = '';

/**
 * Revoked tokens, in records of the ledger. A revocation applies at once in every process, and
 * after a restart:
 *
 *     portal/series/<tenant>         the series of valid tokens; a new one ends all earlier tokens
 *     portal/revoked/<tenant>/<id>   one token; stored until this moment, ms since the epoch
 */
export class Revocations {
  readonly #ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
  readonly #clock: Pick<Clock, 'now'>;

  constructor(
    ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>,
    clock: Pick<Clock, 'now'>,
  ) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  async seriesOf(tenant: string): Promise<string> {
    return (await this.#ledger.record(seriesKey(tenant))) ?? FIRST_SERIES;
  }

  /**
   * Whether a token was revoked, alone or with all of its tenant. Rejects when the ledger cannot be
   * read.
   */
  async has({ tenant, id, series }: PortalClaims): Promise<boolean> {
    const [current, revoked] = await Promise.all([
      this.seriesOf(tenant),
      this.#ledger.record(revokedKey(tenant, id)),
    ]);
    return series !== current || revoked !== undefined;
  }

  /** Revokes every token of a tenant. */
  revokeAll(tenant: string): Promise<WriteOutcome> {
    return this.#write({ key: seriesKey(tenant), value: randomUUID() });
  }

  /** Revokes one token; an unknown id changes nothing. */
  revoke(tenant: string, id: string): Promise<WriteOutcome> {
    const until = this.#clock.now() + LONGEST_MS;
    return this.#write({ key: revokedKey(tenant, id), value: String(until) });
  }

  /** Writes a change and deletes the records that are no longer needed. */
  async #write(change: RecordChange): Promise<WriteOutcome> {
    const now = this.#clock.now();
    const over: RecordChange[] = [];
    for await (const [key, until] of this.#ledger.records(REVOKED)) {
      if (!(Number(until) + SLACK_MS > now) && key !== change.key)
        over.push({ key, value: undefined });
    }
    return this.#ledger.writeRecords([...over, change]);
  }
}

/**
 * A revocation is stored this much longer: the clock of another process may decide when a token
 * ends.
 */
const SLACK_MS = 3_600_000;

function seriesKey(tenant: string): string {
  return `${SERIES}${encodeURIComponent(tenant)}`;
}

function revokedKey(tenant: string, id: string): string {
  return `${REVOKED}${encodeURIComponent(tenant)}/${encodeURIComponent(id)}`;
}
