import type { LedgerDatabase } from '../../../operator/config/settings.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { openPostgresLedger } from '../../../operator/ledger/postgres/open-postgres-ledger.ts';
import { postgresOptions } from '../../../operator/ledger/testing/postgres-options.ts';
import { encodeEvent } from '../../../operator/model/event.ts';
import type { Verification } from '../verification.ts';
import { windowEvents } from './windows.ts';
import type { WriterProcess } from './writer-process.ts';

/** What a stream holds, held against what was acknowledged. */
export interface Checked extends Verification {
  readonly events: number;
}

const PAGE = 1_000;

/** Opens a stream as the next operator would, reads all of it and compares. */
export async function checkStream(
  database: LedgerDatabase,
  stream: string,
  writer: WriterProcess,
): Promise<Checked> {
  const opened = await openPostgresLedger(
    postgresOptions(database, { source: stream, region: stream }),
  );
  if (opened.kind === 'failed') throw new Error(opened.message);
  const { ledger } = opened;
  try {
    return await check(ledger, writer);
  } finally {
    await ledger.close();
  }
}

async function check(ledger: Ledger, writer: WriterProcess): Promise<Checked> {
  const wrong = [...writer.wrong()];
  const found = new Map<string, string>();
  let duplicated = 0;
  for (let after = 0; ; ) {
    const page = await ledger.read(after, PAGE);
    if (page.kind === 'failed') return { ...NOTHING, wrong: [...wrong, page.message], events: 0 };
    for (const [index, { sequence, event }] of page.events.entries()) {
      if (sequence !== after + index + 1) wrong.push(`event ${sequence} follows ${after + index}`);
      if (found.has(event.id)) duplicated += 1;
      found.set(event.id, encodeEvent(event));
    }
    if (page.events.length === 0) break;
    after = page.lastSequence;
  }
  const newest = writer.newest();
  const journal = Number((await ledger.record('journal')) ?? -1);
  let lost = 0;
  let altered = 0;
  let expected = 0;
  for (let window = 0; window <= Math.max(journal, newest?.window ?? -1); window++) {
    const events = windowEvents(window);
    const texts = events.map(({ id }) => found.get(id));
    const missing = texts.filter((text) => text === undefined).length;
    altered += events.filter(
      (event, index) => texts[index] !== undefined && texts[index] !== encodeEvent(event),
    ).length;
    expected += events.length;
    if (window <= (newest?.window ?? -1)) lost += missing;
    else if (missing > 0)
      wrong.push(`window ${window} is in the journal and lacks ${missing} events`);
  }
  if (found.size > expected)
    wrong.push(`${found.size - expected} events of a window that is not in the journal`);
  const cursor = ledger.cursors()[0]?.sequence ?? 0;
  if (cursor > ledger.head()) wrong.push(`the cursor is at ${cursor}, behind ${ledger.head()}`);
  if (lost === 0 && newest !== undefined) {
    if (journal < newest.window) wrong.push(`the journal went back to ${journal}`);
    if (cursor < newest.cursor) wrong.push(`the cursor went back to ${cursor}`);
  }
  const { errors } = await ledger.verify();
  // Found by verification is not undetected.
  const undetectedCorruption = errors.length === 0 ? altered : 0;
  wrong.push(...errors);
  return { ...NOTHING, lost, duplicated, undetectedCorruption, wrong, events: found.size };
}

const NOTHING: Verification = {
  lost: 0,
  duplicated: 0,
  undetectedCorruption: 0,
  invoiceMismatch: 0,
  wrong: [],
};
