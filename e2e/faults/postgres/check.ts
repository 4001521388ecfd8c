import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { openPostgresLedger } from '../../../operator/ledger/postgres/open-postgres-ledger.ts';
import { postgresOptions } from '../../../operator/ledger/testing/postgres-options.ts';
import { encodeEvent, type UsageEvent } from '../../../operator/model/event.ts';
import type { Verification } from '../verification.ts';
import { checkBalances } from './balances.ts';
import { windowEvents } from './windows.ts';
import type { StreamWriter, WriterOptions } from './writer-process.ts';

/** What a stream holds, held against what was acknowledged. */
export interface Checked extends Verification {
  readonly events: number;
}

const PAGE = 1_000;

/** Opens a stream as the next operator would, reads all of it and compares. */
export async function checkStream(
  database: LedgerDatabase,
  { stream, budgets }: Pick<WriterOptions, 'stream' | 'budgets'>,
  writer: StreamWriter,
): Promise<Checked> {
  const opened = await openPostgresLedger(
    postgresOptions(database, { source: stream, region: stream }),
  );
  if (opened.kind === 'failed') throw new Error(opened.message);
  const { ledger } = opened;
  try {
    return await check(ledger, budgets, writer);
  } finally {
    await ledger.close();
  }
}

async function check(ledger: Ledger, budgets: boolean, writer: StreamWriter): Promise<Checked> {
  const wrong = [...writer.wrong()];
  const found = new Map<string, UsageEvent>();
  let duplicated = 0;
  for (let after = 0; ; ) {
    const page = await ledger.read(after, PAGE);
    if (page.kind === 'failed') return { ...NOTHING, wrong: [...wrong, page.message], events: 0 };
    for (const [index, { sequence, event }] of page.events.entries()) {
      if (sequence !== after + index + 1) wrong.push(`event ${sequence} follows ${after + index}`);
      if (found.has(event.id)) duplicated += 1;
      found.set(event.id, event);
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
    const texts = events.map(({ id }) => {
      const event = found.get(id);
      return event && encodeEvent(event);
    });
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
  const lago = ledger.cursors().find(({ destination }) => destination === 'lago');
  const cursor = lago?.sequence ?? 0;
  if (cursor > ledger.head()) wrong.push(`the cursor is at ${cursor}, behind ${ledger.head()}`);
  if (lost === 0 && newest !== undefined) {
    if (journal < newest.window) wrong.push(`the journal went back to ${journal}`);
    if (cursor < newest.cursor) wrong.push(`the cursor went back to ${cursor}`);
  }
  if (budgets && lost === 0) {
    const credits = newest?.credits ?? 0;
    const window = Math.max(journal, 0);
    wrong.push(...(await checkBalances(ledger, { credits, window, events: found.values() })));
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
