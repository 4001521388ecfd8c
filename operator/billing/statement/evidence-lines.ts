import { EVIDENCE_MS } from '../../ledger/evidence-keys.ts';
import { type Ledger, LedgerReadError } from '../../ledger/ledger.ts';
import { evidenceKey } from '../../metering/explanations/evidence-record.ts';
import { evidenceHour } from '../../metering/meters/evidence-log.ts';
import type { TimeRange } from '../../model/window.ts';

/**
 * The evidence of a tenant as lines of a statement, with the records as they are stored
 * (docs/reference/ledger-format.md#evidence). Damage to it loses an hour and no statement. Throws a
 * LedgerReadError if the ledger cannot be read.
 */
export async function* evidenceLines(
  ledger: Pick<Ledger, 'records'>,
  tenant: string,
  { from, to }: TimeRange,
): AsyncGenerator<string> {
  for (let hour = evidenceHour(tenant, from); hour < to; hour += EVIDENCE_MS) {
    const prefix = evidenceKey({ tenant, hour });
    try {
      for await (const [key, record] of ledger.records(prefix)) {
        yield `${JSON.stringify({ evidence: key, record })}\n`;
      }
    } catch (error) {
      if (!(error instanceof LedgerReadError) || error.failure.cause !== 'corrupt') throw error;
      yield `${JSON.stringify({ evidence: prefix, damaged: true })}\n`;
    }
  }
}
