import { randomUUID } from 'node:crypto';
import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { LONGEST_MS, type PortalClaims } from './portal-tokens.ts';

const SERIES = 'portal/series/';
const REVOKED = 'portal/revoked/';
/** Of tenants of which none was ever revoked. */
const FIRST_SERIES = '';

/**
 * Which tokens are no longer good, in records of the ledger, so that it holds at once in every process and after a restart:
 *
 *     portal/series/<tenant>         what its tokens must name; another one ends all of them, whatever clocks say
 *     portal/revoked/<tenant>/<id>   one token: until when that has to be known, milliseconds since the epoch
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

  /** What new tokens of a tenant have to name. */
  async seriesOf(tenant: string): Promise<string> {
    return (await this.#ledger.record(seriesKey(tenant))) ?? FIRST_SERIES;
  }

  /** Whether a token was revoked, itself or with all of its tenant. Rejects where the ledger cannot be read. */
  async has({ tenant, id, series }: PortalClaims): Promise<boolean> {
    const [current, revoked] = await Promise.all([
      this.seriesOf(tenant),
      this.#ledger.record(revokedKey(tenant, id)),
    ]);
    return series !== current || revoked !== undefined;
  }

  /** Ends every token of a tenant that there is. */
  revokeAll(tenant: string): Promise<WriteOutcome> {
    return this.#write({ key: seriesKey(tenant), value: randomUUID() });
  }

  /** Ends one token; one that never was changes nothing. */
  revoke(tenant: string, id: string): Promise<WriteOutcome> {
    const until = this.#clock.now() + LONGEST_MS;
    return this.#write({ key: revokedKey(tenant, id), value: String(until) });
  }

  /** With what nobody has to know any more taken away. */
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

/** Tokens end by the clock of the process that checks them, which may be another one. */
const SLACK_MS = 3_600_000;

function seriesKey(tenant: string): string {
  return `${SERIES}${encodeURIComponent(tenant)}`;
}

function revokedKey(tenant: string, id: string): string {
  return `${REVOKED}${encodeURIComponent(tenant)}/${encodeURIComponent(id)}`;
}
