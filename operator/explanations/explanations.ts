import { mkdir, readdir, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { errorText } from '../model/error-text.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Window } from '../model/window.ts';
import type { Settled } from '../metering/credits.ts';
import type { TenantEvidence } from '../metering/evidence-changes.ts';
import { EvidenceLog } from '../metering/evidence-log.ts';
import { Explainer, type Explanation } from '../metering/explanation.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Turn } from '../telemetry/turn.ts';
import { appendFrame, readEvidence } from './evidence-file.ts';
import { TenantBudget } from './tenant-budget.ts';

/**
 * What stands behind the numbers that the ledger keeps, in files of their own. They bear on no bill:
 * losing them loses explanations, and nothing else (docs/metering.md#what-stands-behind-a-number).
 */
export interface Explanations {
  /** Finds the files that an earlier process left. */
  open(): Promise<void>;
  /**
   * Keeps what the events of a window were made of. Call it before the ledger is given them, so that no
   * event is there without: what the ledger then never gets is found by nobody. Never fails.
   */
  keep(closed: ClosedWindow): Promise<void>;
  find(event: UsageEvent): Promise<Found>;
}

/** The events of one closing of a window are made of these. */
export interface ClosedWindow {
  readonly window: Window;
  /** What its events have as `recorded_at`, milliseconds since the epoch; a window whose scopes are closed apart is closed several times. */
  readonly closedAt: number;
  readonly sources: readonly Settled[];
}

export type Found =
  | { readonly kind: 'found'; readonly explanation: Explanation }
  /** Why there is none. */
  | { readonly kind: 'gone'; readonly reason: string };

export interface ExplanationsOptions {
  readonly directory: string;
  /** The room for all files, bytes; asked again with every window. None at 0. */
  readonly room: () => number;
  /** Nothing older is asked for, milliseconds since the epoch; undefined while everything is there. */
  readonly oldestEventAt: () => number | undefined;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

const DAY_MS = 24 * 3_600_000;

/** Whatever the room is, one tenant and day may take this much of it, unless that is more than a chapter. */
const LEAST_TENANT_BYTES = 16 * 2 ** 20;
const TENANT_SHARE = 1 / 64;
/** Of the room: the oldest go in parts of this size. */
const CHAPTER_SHARE = 1 / 8;
/** What goes on is written anew at the head of each chapter, which must not become most of it. */
const LEAST_CHAPTER = 4;

/** A file: what windows tell that one process closed on one day (UTC), from a first frame that tells everything. */
interface Chapter {
  readonly name: string;
  /** Days since the epoch. */
  readonly day: number;
  bytes: number;
}

/** The chapter that is being written. */
interface Current {
  readonly chapter: Chapter;
  readonly log: EvidenceLog;
  /** Bytes of the first frame. */
  headBytes: number;
  /** Tenants of which it says that nothing more is kept. */
  readonly leftOut: Set<string>;
}

const NAME = /^(\d{4}-\d\d-\d\d)-(\d+)\.evidence$/;

export function createExplanations(options: ExplanationsOptions): Explanations {
  return new ExplanationStore(options);
}

class ExplanationStore implements Explanations {
  readonly #options: ExplanationsOptions;
  /** Oldest first. */
  #chapters: readonly Chapter[] = [];
  #current: Current | undefined;
  readonly #budget = new TenantBudget();
  #failing = false;

  constructor(options: ExplanationsOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    const { directory } = this.#options;
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const found: Chapter[] = [];
      for (const name of await readdir(directory)) {
        const [, date] = NAME.exec(name) ?? [];
        // What an earlier release wrote was kept for a day, and is not read any more.
        if (date === undefined) await rm(this.#path(name), { force: true, recursive: true });
        else
          found.push({
            name,
            day: dayOf(Date.parse(date)),
            bytes: (await stat(this.#path(name))).size,
          });
      }
      this.#chapters = found.toSorted((a, b) => a.day - b.day || numberOf(a) - numberOf(b));
      await this.#prune();
    } catch (error) {
      this.#warn('cannot be read', error);
    }
  }

  async keep(closed: ClosedWindow): Promise<void> {
    try {
      if (closed.sources.length > 0 && this.#options.room() > 0) await this.#write(closed);
      await this.#prune();
      this.#failing = false;
    } catch (error) {
      this.#warn('cannot be written', error);
    }
  }

  async find(event: UsageEvent): Promise<Found> {
    const closing = { end: Date.parse(event.window_end), closedAt: Date.parse(event.recorded_at) };
    const day = dayOf(closing.closedAt);
    const chapters = this.#chapters.filter((chapter) => chapter.day === day);
    for (const { name } of chapters.toReversed()) {
      const explainer = new Explainer(event);
      const give = explainer.add.bind(explainer);
      // A file that is dropped or damaged has nothing to say, which is no reason to fail.
      const found = await readEvidence(this.#path(name), event.tenant, closing, give).catch(
        () => undefined,
      );
      if (found?.kind === 'left-out') return { kind: 'gone', reason: LEFT_OUT };
      if (found?.kind !== 'found') continue;
      const explanation = explainer.explanation(found.amounts);
      if (explanation !== undefined) return { kind: 'found', explanation };
    }
    return { kind: 'gone', reason: chapters.length === 0 ? DROPPED : NOT_KEPT };
  }

  async #write(closed: ClosedWindow): Promise<void> {
    const { window, closedAt } = closed;
    const room = this.#options.room();
    const day = dayOf(closedAt);
    this.#budget.begin(day);
    const current = this.#currentFor(day, room);
    const { chapter, log, leftOut } = current;
    const most = Math.min(room * CHAPTER_SHARE, Math.max(room * TENANT_SHARE, LEAST_TENANT_BYTES));
    const admit = (tenant: string, bytes: number): boolean => {
      const isKept = this.#budget.admit(tenant, bytes, most);
      if (isKept) return true;
      leftOut.add(tenant);
      log.forget(tenant);
      return false;
    };
    const path = this.#path(chapter.name);
    const evidence = this.#evidenceOf(closed, current);
    try {
      const bytes = await appendFrame(path, chapter.bytes, { ...window, closedAt }, evidence, {
        admit,
        turn: new Turn(this.#options.clock),
      });
      if (current.headBytes === 0) current.headBytes = bytes;
      chapter.bytes += bytes;
    } catch (error) {
      // The log knows of what is not in the file: the next window begins another one.
      this.#current = undefined;
      await truncate(path, chapter.bytes).catch(() => undefined);
      throw error;
    }
  }

  /** Of those who took too much that day only so much is told. */
  *#evidenceOf(closed: ClosedWindow, { log, leftOut }: Current): Generator<TenantEvidence> {
    const isLeftOut = ({ charge }: Settled): boolean =>
      this.#budget.isExceeded(charge.identity.tenant);
    const sources = closed.sources.filter((source) => !isLeftOut(source));
    const others = new Set(
      closed.sources.filter(isLeftOut).map(({ charge }) => charge.identity.tenant),
    );
    for (const tenant of others) {
      if (!leftOut.has(tenant))
        yield { tenant, changes: undefined, amounts: { spans: [], nanos: [] } };
    }
    yield* log.close({ ...closed, sources });
  }

  #currentFor(day: number, room: number): Current {
    const known = this.#current;
    if (known?.chapter.day === day) {
      const most = Math.max(room * CHAPTER_SHARE, LEAST_CHAPTER * known.headBytes);
      if (known.chapter.bytes < most) return known;
    }
    const ofDay = this.#chapters.filter((chapter) => chapter.day === day);
    const number = Math.max(0, ...ofDay.map(numberOf)) + 1;
    const date = new Date(day * DAY_MS).toISOString().slice(0, 10);
    const chapter = { name: `${date}-${number}.evidence`, day, bytes: 0 };
    this.#chapters = [...this.#chapters, chapter];
    this.#current = { chapter, log: new EvidenceLog(), headBytes: 0, leftOut: new Set() };
    return this.#current;
  }

  /** The oldest go where the ledger has no such events any more, or all together are too large. */
  async #prune(): Promise<void> {
    const { room, oldestEventAt } = this.#options;
    // An event is stored a moment after it was recorded, or once the volume has room again.
    const oldest = dayOf(oldestEventAt() ?? 0) - 1;
    const most = room();
    let bytes = this.#chapters.reduce((sum, chapter) => sum + chapter.bytes, 0);
    const kept: Chapter[] = [];
    for (const chapter of this.#chapters) {
      if (bytes <= most && chapter.day >= oldest) {
        kept.push(chapter);
        continue;
      }
      bytes -= chapter.bytes;
      if (chapter === this.#current?.chapter) this.#current = undefined;
      await rm(this.#path(chapter.name), { force: true });
    }
    this.#chapters = kept;
  }

  /** One line for each time that it begins to fail. */
  #warn(what: string, error: unknown): void {
    const { directory, logger } = this.#options;
    const reason = errorText(error);
    const line = `[controller] explanations: ${what}: "${directory}": ${reason}; billing goes on without`;
    if (!this.#failing) logger.warn(line);
    this.#failing = true;
  }

  #path(name: string): string {
    return join(this.#options.directory, name);
  }
}

const LEFT_OUT =
  'the objects of its tenant cluster came and went so often that day that what they were took more than one tenant may';
const DROPPED =
  'it was dropped: explanations had no more room on the volume, and the oldest go first; or an earlier release made the event';
const NOT_KEPT =
  'it was not kept: there was no room for it, its file is damaged, or an earlier release made the event';

function dayOf(time: number): number {
  return Math.floor(time / DAY_MS);
}

function numberOf({ name }: Pick<Chapter, 'name'>): number {
  return Number(NAME.exec(name)?.[2]);
}
