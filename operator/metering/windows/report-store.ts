import { deflateSync, inflateSync } from 'node:zlib';
import type { RecordChange } from '../../ledger/ledger.ts';
import type { WindowReport } from './window-report.ts';

/** Key prefix of report records; the rest of the key is the window's end and the time of closing. */
export const REPORT_PREFIX = 'window-report/';

/** How much of the past reports tell of. The newest is kept whatever it takes. */
export interface ReportLimits {
  /** Of so many windows; one whose scopes are closed in turns has many reports. */
  readonly windows: number;
  /** Characters of all of them as records. */
  readonly characters: number;
  /** Rows by node and by tenant, which are many: kept in memory of the newest windows, and never as records. */
  readonly nodeWindows: number;
  readonly nodeRows: number;
}

/** A day of one-minute windows; at most 4 MiB of text, which are packed in memory, and 8 MiB of rows by node. */
const LIMITS: ReportLimits = {
  windows: 1_440,
  characters: 4 * 2 ** 20,
  nodeWindows: 30,
  nodeRows: 30_000,
};

/** The last reports, in memory and as records. */
export interface WindowReports {
  /** The record changes that keep `report` and drop what is too old. */
  add(report: WindowReport): readonly RecordChange[];
  /** Newest first. Each is read when it is asked for: who wants the newest does not pay for those of a day. */
  list(): IteratorObject<WindowReport, undefined>;
  /** The newest in which this scope was closed, without its rows by node. */
  last(scope: string): WindowReport | undefined;
  /** Takes up records, except those that it has. */
  restore(records: Iterable<readonly [key: string, value: string]>): void;
  /** Forgets what is too old in memory alone: for a reader of records that somebody else keeps. */
  trim(): void;
}

export function createWindowReports(limits: ReportLimits = LIMITS): WindowReports {
  return new ReportStore(limits);
}

interface Stored {
  readonly windowEnd: string;
  /** Of its record. */
  readonly characters: number;
  /** Where its record is, when it is not among the newest. */
  packed?: Packed;
}

interface Packed {
  readonly pack: Uint8Array;
  readonly index: number;
}

/** So many records are packed at once. They are much alike: together they take a tenth of the memory. */
const PACK = 60;
/** No JSON has this character. */
const BETWEEN = '\0';

interface ReportRecord {
  readonly v: 1;
  readonly report: WindowReport;
}

class ReportStore implements WindowReports {
  readonly #limits: ReportLimits;
  /** Oldest first. */
  readonly #stored = new Map<string, Stored>();
  #characters = 0;
  /** The newest records. As objects they take twice the memory. */
  readonly #texts = new Map<string, string>();
  /** The newest of each scope. */
  readonly #last = new Map<string, WindowReport>();
  /** How many reports there are of each window, by its end. */
  readonly #windows = new Map<string, number>();
  /** Those that still have their rows by node, oldest first, by the same key. */
  readonly #complete = new Map<string, WindowReport>();

  constructor(limits: ReportLimits) {
    this.#limits = limits;
  }

  add(report: WindowReport): readonly RecordChange[] {
    let key = `${REPORT_PREFIX}${report.windowEnd}/${report.closedAt}`;
    // Another scope of the window may have been closed in the same millisecond.
    while (this.#stored.has(key)) key += '+';
    const record: ReportRecord = { v: 1, report: withoutNodes(report) };
    const text = JSON.stringify(record);
    this.#keep(key, text, record.report);
    if (nodeRows(report) > 0) {
      this.#complete.set(key, report);
      this.#thin();
    }
    const dropped = this.#drop();
    return [{ key, value: text }, ...dropped.map((old) => ({ key: old, value: undefined }))];
  }

  *list(): Generator<WindowReport, undefined> {
    const unpacking = new Unpacking();
    for (const [key, { packed }] of [...this.#stored].toReversed()) {
      const text = this.#texts.get(key) ?? unpacking.read(packed);
      // Meanwhile the oldest may have been dropped.
      if (text !== undefined) yield this.#complete.get(key) ?? readReport(text);
    }
  }

  last(scope: string): WindowReport | undefined {
    return this.#last.get(scope);
  }

  restore(records: Iterable<readonly [key: string, value: string]>): void {
    for (const [key, text] of records) {
      if (this.#stored.has(key)) continue;
      const { v, report } = JSON.parse(text) as { v: unknown; report: WindowReport };
      if (v === 1) this.#keep(key, text, report);
    }
  }

  trim(): void {
    this.#drop();
  }

  #keep(key: string, text: string, report: WindowReport): void {
    const { windowEnd, scopes } = report;
    this.#stored.set(key, { windowEnd, characters: text.length });
    this.#texts.set(key, text);
    if (this.#texts.size === 2 * PACK) this.#pack([...this.#texts].slice(0, PACK));
    this.#characters += text.length;
    this.#windows.set(windowEnd, (this.#windows.get(windowEnd) ?? 0) + 1);
    for (const scope of scopes) this.#last.set(scope, report);
  }

  #pack(texts: readonly (readonly [key: string, text: string])[]): void {
    // A copy: zlib gives a part of a buffer that is larger.
    const pack = new Uint8Array(deflateSync(texts.map(([, text]) => text).join(BETWEEN)));
    for (const [index, [key]] of texts.entries()) {
      const stored = this.#stored.get(key);
      if (stored !== undefined) stored.packed = { pack, index };
      this.#texts.delete(key);
    }
  }

  /** Gives the keys of what is forgotten. */
  #drop(): readonly string[] {
    const dropped: string[] = [];
    for (const [key, { windowEnd, characters }] of this.#stored) {
      const { windows, characters: most } = this.#limits;
      const isWithin = this.#windows.size <= windows && this.#characters <= most;
      if (isWithin || this.#stored.size === 1) break;
      this.#stored.delete(key);
      this.#texts.delete(key);
      this.#complete.delete(key);
      this.#characters -= characters;
      const others = (this.#windows.get(windowEnd) ?? 0) - 1;
      if (others > 0) this.#windows.set(windowEnd, others);
      else this.#windows.delete(windowEnd);
      dropped.push(key);
    }
    return dropped;
  }

  /** Forgets the rows by node of all but the newest. */
  #thin(): void {
    const windows = new Set<string>();
    let rows = 0;
    for (const [key, report] of [...this.#complete].toReversed()) {
      windows.add(report.windowEnd);
      rows += nodeRows(report);
      const { nodeWindows, nodeRows: most } = this.#limits;
      const isNewest = rows === nodeRows(report);
      if (!isNewest && (windows.size > nodeWindows || rows > most)) this.#complete.delete(key);
    }
  }
}

/** Reads records, those of one pack one after the other. */
class Unpacking {
  #pack: Uint8Array | undefined;
  #texts: readonly string[] = [];

  read(packed: Packed | undefined): string | undefined {
    if (packed === undefined) return undefined;
    if (packed.pack !== this.#pack) {
      this.#pack = packed.pack;
      this.#texts = inflateSync(packed.pack).toString().split(BETWEEN);
    }
    return this.#texts[packed.index];
  }
}

function readReport(text: string): WindowReport {
  const { report } = JSON.parse(text) as ReportRecord;
  return report;
}

function nodeRows({ gpus }: WindowReport): number {
  return (gpus?.nodes?.length ?? 0) + (gpus?.tenants?.length ?? 0);
}

function withoutNodes({ gpus, ...report }: WindowReport): WindowReport {
  if (gpus === undefined) return report;
  const { nodes: _nodes, tenants: _tenants, ...summed } = gpus;
  return { ...report, gpus: summed };
}
