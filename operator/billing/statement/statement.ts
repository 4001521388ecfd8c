import { createHash } from 'node:crypto';
import { BatchTree, chainValue } from '../../ledger/event-chain.ts';
import { EVIDENCE_MS } from '../../ledger/evidence-keys.ts';
import { damage, ledgerFailure } from '../../ledger/failures.ts';
import {
  type Ledger,
  type LedgerBatch,
  LedgerReadError,
  type StoredEvent,
} from '../../ledger/ledger.ts';
import { evidenceKey } from '../../metering/explanations/evidence-record.ts';
import { evidenceHour } from '../../metering/meters/evidence-log.ts';
import { decodeEvent } from '../../model/event.ts';
import type { TimeRange } from '../../model/window.ts';
import { type StatementPrices, StatementSums } from './statement-sums.ts';

/** The form of the file, for programs that check it. */
const FORMAT = 'meterfeed-statement/1';

/** What a statement is made of. */
export interface StatementSource {
  readonly ledger: Pick<Ledger, 'batches' | 'records'>;
  readonly tenant: string;
  /** A UTC calendar month. */
  readonly month: TimeRange;
  /** The events of tenant and month in ledger order. Those after `head` are ignored. */
  readonly events: AsyncIterable<StoredEvent>;
  /** The number of the newest event when the statement is made. */
  readonly head: number;
  /** Whether the evidence is in the file, and not its hash alone. */
  readonly hasEvidence: boolean;
  readonly prices: StatementPrices;
  readonly signal: AbortSignal;
}

/**
 * The lines of a statement, without its signature (docs/how-to/check-a-bill.md#the-file). The first
 * has `about`, the last `ending`. Throws a LedgerReadError at damage, and where batches have no
 * tree.
 */
export async function* statementLines(
  source: StatementSource,
  { about, ending }: { readonly about: object; readonly ending: object },
): AsyncGenerator<string> {
  const { ledger, tenant, month, hasEvidence } = source;
  yield lineOf({ format: FORMAT, tenant, ...about });
  const sums = new StatementSums(tenant, month, source.prices);
  yield* batchLines(source, sums);
  const digest = createHash('sha256');
  for await (const line of evidenceLines(ledger, tenant, month)) {
    digest.update(line);
    if (hasEvidence) yield line;
  }
  yield lineOf(sums.prices());
  yield lineOf({ ...sums.sums(), ...ending, evidence_sha256: digest.digest('hex') });
}

/** The batches from the tenant's first event of the month to the head. */
async function* batchLines(source: StatementSource, sums: StatementSums): AsyncGenerator<string> {
  const { ledger, head, signal } = source;
  const events = source.events[Symbol.asyncIterator]();
  let wanted = await nextSequence(events);
  if (wanted > head) return;
  let before: string | undefined;
  for await (const batch of ledger.batches(wanted, signal)) {
    const { lastSequence } = batch;
    if (lastSequence > head) return;
    const root = checkedRoot(batch, before ?? batch.previous);
    const start = before === undefined ? { previous: batch.previous } : {};
    if (wanted > lastSequence) yield lineOf({ ...start, ...placeOf(batch), root });
    else yield* eventLines(batch, root, start, source, sums);
    while (wanted <= lastSequence) wanted = await nextSequence(events);
    before = batch.chain;
  }
}

/** Infinity after the last one. */
async function nextSequence(events: AsyncIterator<StoredEvent>): Promise<number> {
  const next = await events.next();
  return next.done === true ? Number.POSITIVE_INFINITY : next.value.sequence;
}

/** The root of a batch that continues the chain. */
function checkedRoot(
  { firstSequence, root, chain, ...batch }: LedgerBatch,
  before: string,
): string {
  if (root === undefined) {
    const what = `the batch of event ${firstSequence} has no tree`;
    const fix = 'take a month after the upgrade (docs/reference/ledger-format.md#the-link)';
    throw new LedgerReadError(ledgerFailure('invalid', `ledger: ${what}: ${fix}`));
  }
  if (batch.previous === before && chainValue(before, firstSequence, root) === chain) return root;
  throw damage(`event ${firstSequence}`, 'the chain does not continue');
}

/** A batch with events of the tenant, each on a line of its own, as the chain covers them. */
async function* eventLines(
  batch: LedgerBatch,
  root: string,
  start: object,
  { tenant, month: { from, to } }: StatementSource,
  sums: StatementSums,
): AsyncGenerator<string> {
  const tree = new BatchTree();
  const texts = await batch.texts();
  for (const stored of texts) tree.add(stored.sequence, stored.tenant, stored.text);
  if (tree.root() !== root) throw damage(`event ${batch.firstSequence}`, 'the root differs');
  const own = texts.filter((stored) => stored.tenant === tenant);
  const path = tree.path(tenant);
  yield lineOf({ ...start, ...placeOf(batch), events: own.length, path });
  for (const { sequence, text } of own) {
    yield `{"sequence":${sequence},"event":${text}}\n`;
    const event = decodeEvent(text);
    const at = Date.parse(event.window_start);
    // The leaf also has the tenant's events of other months.
    if (at >= from && at < to) sums.add(event);
  }
}

/**
 * The evidence of a tenant as lines of a statement, with the records as they are stored
 * (docs/reference/ledger-format.md#evidence). Damage to it loses an hour and no statement. Throws a
 * LedgerReadError if the ledger cannot be read.
 */
async function* evidenceLines(
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

function placeOf({ firstSequence: first, lastSequence: last }: LedgerBatch): object {
  return { first, last };
}

function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
