/**
 * A process of its own that joins a stream, holds the lease `feeder/a` when it can, and writes its epoch into a record for
 * as long as it thinks that it may. Argument: the port and the name of the database, and how much faster its clock is.
 * Prints a line `{kind, epoch}` for each write that was taken and each that was refused.
 */
import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { createScaledClock } from '../../telemetry/testing/scaled-clock.ts';
import { joinTestStream } from './postgres-replicas.ts';
import { TEST_USER } from './postgres-server.ts';

const say = (kind: string, epoch: number): void => {
  writeSync(1, `${JSON.stringify({ kind, epoch })}\n`);
};

if (process.argv[1] === import.meta.filename) {
  const [port = '', name = '', factor = '1'] = process.argv.slice(2);
  const database = {
    host: '127.0.0.1',
    port: Number(port),
    name,
    user: TEST_USER,
    tls: { mode: 'disable' },
  } as const;
  const clock = createScaledClock(Number(factor));
  const replica = await joinTestStream(database, { clock });
  const { leases } = replica;
  leases.want(['feeder/a']);
  void leases.run(new AbortController().signal);
  for (;;) {
    const held = leases.held().get('feeder/a');
    if (held === undefined) {
      await delay(5);
      continue;
    }
    // Asked for no leave but the ledger's, as a process is that was asleep between a look at the clock and a write.
    const change = { key: 'written by', value: String(held.epoch) };
    const given = await replica.heldBy(held);
    if (given.kind === 'failed') continue;
    const outcome = await given.ledger.writeRecords([change]);
    say(outcome.kind === 'written' ? 'written' : outcome.cause, held.epoch);
  }
}
