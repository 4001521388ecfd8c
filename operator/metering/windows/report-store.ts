import { deflateSync, inflateSync } from 'node:zlib';
import type { RecordChange } from '../../ledger/ledger.ts';
import { isRecord } from '../../model/is-record.ts';
import { renamedKeys } from '../../model/renamed-keys.ts';
import { inPresentForm } from './gaps.ts';
import type { WindowReport } from './window-report.ts';

/** Key prefix of report records. The window's end and the time of closing follow. */
export const REPORT_PREFIX = 'window-report/';

/** Bounds of the stored reports. The newest report always stays. */
export interface ReportLimits {
  /** Most windows. A window whose scopes close at different times has several reports. */
  readonly windows: number;
  /** Most characters of all report records. */
  readonly characters: number;
  /** Most windows with rows by node and tenant, and most such rows, which only memory has. */
  readonly nodeWindows: number;
  readonly nodeRows: number;
}

/** A day of one-minute windows: at most 4 MiB of compressed text, and 8 MiB of rows by node. */
const LIMITS: ReportLimits = {
  windows: 1_440,
  characters: 4 * 2 ** 20,
  nodeWindows: 30,
  nodeRows: 30_000,
};

interface Stored {
  readonly windowEnd: string;
  /** Length of its record. */
  readonly characters: number;
  /** Where its record is, unless it is among the newest. */
  packed?: { readonly pack: Uint8Array; readonly index: number };
}

/** Records in one pack. They are much alike: together they take a tenth of the memory. */
const PACK = 60;
/** JSON never contains this character. */
const BETWEEN = '\0';

/** Version of a record. Version 1 has other names of fields. */
const VERSION = 2;

/** Names of fields in records of version 1, each with the present name. */
const NAMES_OF_VERSION_1 = new Map([
  ['openCreditSeconds', 'openReversalSeconds'],
  ['unsettledCreditSeconds', 'expiredReversalSeconds'],
  ['ownNodeProblems', 'privateNodeProblems'],
]);
const GPU_NAMES_OF_VERSION_1 = new Map([['ownNodes', 'privateNodes']]);

/** The last reports, in memory and as records. */
export class WindowReports {
  readonly #limits: ReportLimits;
  /** Oldest first. */
  readonly #stored = new Map<string, Stored>();
  #characters = 0;
  /** The newest records. As objects they take twice the memory. */
  readonly #texts = new Map<string, string>();
  /** The newest report of each scope. */
  readonly #last = new Map<string, WindowReport>();
  /** Number of reports of each window, by its end. */
  readonly #windows = new Map<string, number>();
  /** Reports that still have their rows by node, oldest first, by the same key. */
  readonly #complete = new Map<string, WindowReport>();

  constructor(limits: ReportLimits = LIMITS) {
    this.#limits = limits;
  }

  /** Returns the record changes that store `report` and delete old reports. */
  add(report: WindowReport): readonly RecordChange[] {
    let key = `${REPORT_PREFIX}${report.windowEnd}/${report.closedAt}`;
    // Another scope of the window may have closed in the same millisecond.
    while (this.#stored.has(key)) key += '+';
    const stored = withoutNodes(report);
    const text = JSON.stringify({ v: VERSION, report: stored });
    this.#store(key, text, stored);
    if (nodeRows(report) > 0) {
      this.#complete.set(key, report);
      this.#thin();
    }
    const dropped = this.#drop();
    return [{ key, value: text }, ...dropped.map((old) => ({ key: old, value: undefined }))];
  }

  /** Newest first. The iterator decodes each report when it reaches it. */
  *list(): Generator<WindowReport, undefined> {
    const unpacking = new Unpacking();
    for (const [key, { packed }] of [...this.#stored].toReversed()) {
      const text = this.#texts.get(key) ?? unpacking.read(packed);
      // The oldest may have been removed meanwhile.
      const report = this.#complete.get(key) ?? (text === undefined ? undefined : readReport(text));
      if (report !== undefined) yield report;
    }
  }

  /** The newest report of a window that closed this scope, without rows by node. */
  last(scope: string): WindowReport | undefined {
    return this.#last.get(scope);
  }

  /** Adds records that are not stored yet. */
  restore(records: Iterable<readonly [key: string, value: string]>): void {
    for (const [key, text] of records) {
      if (this.#stored.has(key)) continue;
      const report = readReport(text);
      if (report !== undefined) this.#store(key, text, report);
    }
  }

  /** Removes old reports from memory only, for a reader of records that another process writes. */
  trim(): void {
    this.#drop();
  }

  #store(key: string, text: string, report: WindowReport): void {
    const { windowEnd, scopes } = report;
    this.#stored.set(key, { windowEnd, characters: text.length });
    this.#texts.set(key, text);
    if (this.#texts.size === 2 * PACK) this.#pack([...this.#texts].slice(0, PACK));
    this.#characters += text.length;
    this.#windows.set(windowEnd, (this.#windows.get(windowEnd) ?? 0) + 1);
    for (const scope of scopes) this.#last.set(scope, report);
  }

  #pack(texts: readonly (readonly [key: string, text: string])[]): void {
    // Copies, because zlib returns a part of a larger buffer.
    const pack = new Uint8Array(deflateSync(texts.map(([, text]) => text).join(BETWEEN)));
    for (const [index, [key]] of texts.entries()) {
      const stored = this.#stored.get(key);
      if (stored !== undefined) stored.packed = { pack, index };
      this.#texts.delete(key);
    }
  }

  /** Removes old reports and returns their keys. */
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

  /** Removes the rows by node from all but the newest reports. */
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

/** Reads packed records; fast if records of one pack follow each other. */
class Unpacking {
  #pack: Uint8Array | undefined;
  #texts: readonly string[] = [];

  read(packed: Stored['packed']): string | undefined {
    if (packed === undefined) return undefined;
    if (packed.pack !== this.#pack) {
      this.#pack = packed.pack;
      this.#texts = inflateSync(packed.pack).toString().split(BETWEEN);
    }
    return this.#texts[packed.index];
  }
}

/** Returns the report of a record in the present form; undefined for other versions. */
function readReport(text: string): WindowReport | undefined {
  const { v, report } = JSON.parse(text) as { readonly v: unknown; readonly report: unknown };
  if (v === VERSION) return report as WindowReport;
  return v === 1 && isRecord(report) ? (ofVersion1(report) as WindowReport) : undefined;
}

function ofVersion1(report: object): unknown {
  const { gpus, gaps, ...others } = renamedKeys(report, NAMES_OF_VERSION_1) as WindowReport;
  return {
    ...others,
    ...(gpus !== undefined && { gpus: renamedKeys(gpus, GPU_NAMES_OF_VERSION_1) }),
    gaps: gaps.map(inPresentForm),
  };
}

function nodeRows({ gpus }: WindowReport): number {
  return (gpus?.nodes?.length ?? 0) + (gpus?.tenants?.length ?? 0);
}

function withoutNodes({ gpus, ...report }: WindowReport): WindowReport {
  if (gpus === undefined) return report;
  const { nodes: _nodes, tenants: _tenants, ...summed } = gpus;
  return { ...report, gpus: summed };
}
