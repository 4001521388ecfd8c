import type { Ledger } from '../ledger/ledger.ts';
import { isRecord } from '../model/is-record.ts';
import type { CursorField, DestinationStatus } from './destination-status.ts';

const PREFIX = 'delivery/status/';

/** What every process learns of a destination from the ledger itself. */
type Told = Omit<DestinationStatus, 'fedBy' | 'problem' | CursorField>;

/** Where delivery stands, as those who feed destinations have told the others by a record of the ledger. */
export class SharedStatus {
  readonly #ledger: Pick<Ledger, 'records'>;
  /** By the right it was told by: whoever has another one, after others may have had it, tells again. */
  readonly #told = new WeakMap<object, string>();
  #heard: ReadonlyMap<string, Told> = new Map();

  constructor(ledger: Pick<Ledger, 'records'>) {
    this.#ledger = ledger;
  }

  /** Writes what has changed since the last time, by the right of whoever feeds it. What cannot be written is tried with the next call. */
  async tell(status: DestinationStatus, ledger: Pick<Ledger, 'writeRecords'>): Promise<void> {
    const { name } = status;
    const value = JSON.stringify({ v: 1, status: toldOf(status) });
    if (this.#told.get(ledger) === value) return;
    const outcome = await ledger.writeRecords([{ key: PREFIX + name, value }]);
    if (outcome.kind === 'written') this.#told.set(ledger, value);
  }

  /** Reads what all of them have told. */
  async hear(): Promise<void> {
    const heard = new Map<string, Told>();
    for await (const [key, text] of this.#ledger.records(PREFIX)) {
      const told = parse(text);
      if (told !== undefined) heard.set(key.slice(PREFIX.length), told);
    }
    this.#heard = heard;
  }

  of(name: string): Told | undefined {
    return this.#heard.get(name);
  }
}

function toldOf({
  fedBy: _fedBy,
  problem: _problem,
  cursor: _cursor,
  cursorWindowEnd: _end,
  lagEvents: _events,
  lagSeconds: _seconds,
  backlog: _backlog,
  delivered: _delivered,
  skipped: _skipped,
  lastSuccessAt,
  ...told
}: DestinationStatus): Omit<Told, 'delivered' | 'skipped'> {
  // To the minute: a busy destination is not written about all the time.
  const at = lastSuccessAt === undefined ? undefined : Math.floor(lastSuccessAt / 60_000) * 60_000;
  return { ...told, ...(at !== undefined && { lastSuccessAt: at }) };
}

/** Only this module writes under the prefix. What is counted is counted from the start of the process that feeds. */
function parse(text: string): Told | undefined {
  const value: unknown = JSON.parse(text);
  if (!isRecord(value) || value['v'] !== 1) return undefined;
  const { status } = value as { readonly status?: Omit<Told, 'delivered' | 'skipped'> };
  return status && { ...status, delivered: 0, skipped: 0 };
}
