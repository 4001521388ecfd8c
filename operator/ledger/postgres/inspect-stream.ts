import type { LedgerDatabase } from '../../config/settings.ts';
import { createProblems, damage, ledgerFailure } from '../failures.ts';
import { LedgerReadError, type VerifyReport } from '../ledger.ts';
import type { StreamView } from './decode-rows.ts';
import { createReaders } from './readers.ts';
import { SeriesCache } from './series-cache.ts';
import { openSession, type Session } from './session.ts';
import { type Contents, readContents } from './state.ts';
import { rollback } from './transaction.ts';
import { verifyStream } from './verify.ts';

/** A stream that is looked at, whoever writes it meanwhile. */
export interface InspectedStream {
  readonly view: StreamView;
  close(): Promise<void>;
}

const ANSWER_MS = 60_000;

/** Opens a stream for reading, as of now. `source` may be left out where there is only one. Throws when there is no such stream. */
export async function inspectStream(
  database: LedgerDatabase,
  source: string | undefined,
): Promise<InspectedStream> {
  const session = await openSession(database, ANSWER_MS);
  try {
    const contents = await contentsOf(session, source);
    const readers = createReaders(database);
    const { query, copyOut } = readers;
    const view = { contents, series: new SeriesCache(), query, copyOut };
    return { view, close: () => readers.end() };
  } finally {
    await session.end();
  }
}

async function contentsOf(session: Session, source: string | undefined): Promise<Contents> {
  const [, found] = await session.run([
    { text: 'begin isolation level repeatable read read only' },
    { text: 'select stream, source from meterfeed.stream order by source', values: [] },
  ]);
  const streams = found?.rows ?? [];
  const chosen = streams.filter((row) => source === undefined || row['source'] === source);
  const [only] = chosen;
  if (only === undefined || chosen.length > 1) {
    const names = streams.map((row) => row['source']).join(', ');
    const text = `--stream: name one of "${names}": "${source ?? ''}"`;
    throw new LedgerReadError(ledgerFailure('invalid', text));
  }
  const contents = await readContents(session, Number(only['stream']));
  await rollback(session);
  return contents;
}

/** Reads every event of a stream, and compares its chain with a value that was kept elsewhere. */
export async function verifyInspected(
  view: StreamView,
  anchor: { readonly sequence: number; readonly chain: string } | undefined,
): Promise<VerifyReport> {
  const silent = () => undefined;
  const problems = createProblems({ debug: silent, info: silent, warn: silent, error: silent });
  const report = await verifyStream(view, problems);
  if (anchor === undefined) return report;
  const { stream, head } = view.contents.state;
  const rows = await view.query({
    text: 'select chain from meterfeed.batch where stream = $1 and last_seq = $2',
    values: [stream, anchor.sequence],
  });
  if (rows[0]?.['chain'] === anchor.chain) return report;
  const lost =
    anchor.sequence > head ? `: events ${head + 1} to ${anchor.sequence} are missing` : '';
  const { message } = damage(
    'chain',
    `it does not pass through the anchor at ${anchor.sequence}${lost}`,
  ).failure;
  return { ...report, ok: false, errors: [...report.errors, message] };
}
