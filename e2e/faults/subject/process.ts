/**
 * The operator's ledger and delivery engine in a process of their own, for the fault suite: takes
 * orders on standard input and tells what happens on standard output, a line of JSON each. Arguments,
 * where the disk is to misbehave: the shim's control file and its trace.
 */
import { writeSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { createInterface } from 'node:readline';
import { openFaultyDisk, SOUND_DISK } from './disk.ts';
import { live } from './life.ts';
import type { Message, Order } from './messages.ts';

const [controlFile, traceFile] = process.argv.slice(2);
const disk =
  controlFile === undefined || traceFile === undefined
    ? SOUND_DISK
    : openFaultyDisk(controlFile, traceFile);

/** At once and whole: what was said before a SIGKILL counts. */
function report(message: Message): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

// Otherwise that happens in the end, which a process that is killed does not come to.
flushCompileCache();

let goOn: (elapsed: number) => void = () => undefined;
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line) as Order;
  if (order.kind === 'go-on') {
    goOn(order.elapsed);
    continue;
  }
  void live({
    order,
    disk,
    report,
    wait: (lockDeleted) =>
      new Promise((resolve) => {
        goOn = resolve;
        report({ kind: 'waiting', lockDeleted });
      }),
  }).then(
    (end) => report({ kind: 'ended', ...end }),
    (error: unknown) => {
      throw error;
    },
  );
}
