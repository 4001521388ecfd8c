import { createHash } from 'node:crypto';
import type { RecordChange } from '../ledger.ts';
import { METER_STATE_KEY } from '../meter-ledger.ts';

/** Where the meter of a stream has got to, as a hash: two streams are at one place where theirs are equal. */
export async function streamState(ledger: {
  record(key: string): Promise<string | undefined>;
}): Promise<string> {
  return hash(await ledger.record(METER_STATE_KEY));
}

/** As {@link streamState} is once these records are written; undefined where they do not change it. */
export function stateOf(records: readonly RecordChange[] = []): string | undefined {
  const change = records.findLast(({ key }) => key === METER_STATE_KEY);
  return change && hash(change.value);
}

function hash(text: string | undefined): string {
  return createHash('sha256')
    .update(JSON.stringify(text ?? null))
    .digest('hex');
}
