import { override } from '../../../operator/model/override.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import type { Outbound } from '../../../operator/outbound/outbound.ts';
import type { IdleClock } from '../../faults/subject/idle-clock.ts';

/** A ledger on disk for which time stands still while it works. */
export function ledgerDuring(clock: IdleClock, ledger: Ledger): Ledger {
  return override<Ledger>(ledger, {
    append: (batch) => clock.during(() => ledger.append(batch)),
    read: (after, limit) => clock.during(() => ledger.read(after, limit)),
    find: (id) => clock.during(() => ledger.find(id)),
    commitCursor: (name, sequence, commit) =>
      clock.during(() => ledger.commitCursor(name, sequence, commit)),
    record: (key) => clock.during(() => ledger.record(key)),
    records: (prefix) => stepsDuring(clock, ledger.records(prefix)),
    scan: (from, to, signal) => stepsDuring(clock, ledger.scan(from, to, signal)),
    writeRecords: (changes) => clock.during(() => ledger.writeRecords(changes)),
  });
}

/** A network that takes no time. */
export function outboundDuring(clock: IdleClock, outbound: Outbound): Outbound {
  return {
    client: (options) => {
      const client = outbound.client(options);
      return {
        request: (request) => clock.during(() => client.request(request)),
        close: () => client.close(),
      };
    },
  };
}

async function* stepsDuring<T>(clock: IdleClock, steps: AsyncIterable<T>): AsyncGenerator<T> {
  const iterator = steps[Symbol.asyncIterator]();
  try {
    for (;;) {
      const step = await clock.during(() => iterator.next());
      if (step.done === true) return;
      yield step.value;
    }
  } finally {
    await iterator.return?.();
  }
}
