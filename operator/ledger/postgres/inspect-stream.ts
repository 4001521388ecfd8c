import type { LedgerDatabase } from '../../settings/settings.ts';
import { damage, ledgerFailure } from '../failures.ts';
import { LedgerReadError, type VerifyReport } from '../ledger.ts';
import { listStreams } from './list-streams.ts';
import { createReaders } from './readers.ts';
import { openSession, type Session } from './session.ts';
import { readContentsNow, type StreamView } from './state.ts';
import { verifyStream } from './verify.ts';

const ANSWER_MS = 60_000;

/**
 * Opens a stream for reading, as of now. `source` may be undefined if there is only one. Throws if
 * there is no such stream.
 */
export async function inspectStream(
  database: LedgerDatabase,
  source: string | undefined,
): Promise<{ readonly view: StreamView; close(): Promise<void> }> {
  const session = await openSession(database, ANSWER_MS);
  try {
    const schema = await schemaOfStream(session, source);
    const contents = await readContentsNow(session, schema);
    const readers = createReaders(database);
    return { view: { schema, contents, query: readers.query }, close: () => readers.end() };
  } finally {
    await session.end();
  }
}

async function schemaOfStream(session: Session, source: string | undefined): Promise<string> {
  const streams = await listStreams(session);
  const chosen = streams.filter((stream) => source === undefined || stream.source === source);
  const [only] = chosen;
  if (only !== undefined && chosen.length === 1) return only.schema;
  const names = streams.map((stream) => stream.source).join(', ');
  const text = `--stream: name one of "${names}": "${source ?? ''}"`;
  throw new LedgerReadError(ledgerFailure('invalid', text));
}

/** Reads every event of a stream and compares its chain with an anchor stored elsewhere. */
export async function verifyInspected(
  view: StreamView,
  anchor: { readonly sequence: number; readonly chain: string } | undefined,
): Promise<VerifyReport> {
  const report = await verifyStream(view);
  if (anchor === undefined) return report;
  const { head } = view.contents.state;
  const rows = await view.query({
    text: `select chain from ${view.schema}.batch where last_seq = $1`,
    values: [anchor.sequence],
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
