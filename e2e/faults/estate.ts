import { cpSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { damageDirectory } from './disk/damage.ts';
import { type Baseline, clearTrace, cutPower, takeBaseline } from './disk/power-cut.ts';
import type { Life } from './plan.ts';
import type { TraceFiles } from './disk/shim.ts';
import type { LifeReport } from './subject/subject.ts';

/** What a life leaves to the next one: the directory of the ledger. */
export interface Estate {
  /** Where the ledger is. */
  directory(): string;
  /** Where an abandoned life leaves a copy. */
  readonly heir: string;
  /** Before a life that ends in a power cut. */
  remember(): Baseline;
  /** Takes over what a life has left. */
  inherit(report: LifeReport): void;
  /** Takes over what a power cut has left of it. */
  cutPower(report: LifeReport, baseline: Baseline, trace: TraceFiles, seed: number): void;
  /** Changes stored bytes. Gives what it did, and how to put the undamaged directory back. */
  damage(damage: NonNullable<Life['damage']>): {
    readonly what: string;
    readonly restore: () => void;
  };
  deleteLocks(): void;
  remove(): void;
}

/** `watched` is seen by the shims, `copies` is not. */
export function createEstate(watched: string, copies: string): Estate {
  let generation = 0;
  let directory = join(watched, 'data-0');
  mkdirSync(watched, { recursive: true });
  mkdirSync(copies, { recursive: true });
  const next = (): string => {
    generation += 1;
    return join(watched, `data-${generation}`);
  };
  const seenBy = ({ end }: LifeReport): string => end?.directory ?? directory;

  return {
    directory: () => directory,
    heir: join(copies, 'heir'),
    remember: () => takeBaseline(directory, join(copies, 'baseline')),
    inherit: (report) => {
      const seen = seenBy(report);
      if (seen === directory) return;
      directory = next();
      renameSync(seen, directory);
    },
    cutPower: (report, baseline, trace, seed) => {
      const result = next();
      const traced = report.end?.traced ?? Number.POSITIVE_INFINITY;
      cutPower({ baseline, seen: seenBy(report), result, trace, traced, seed });
      clearTrace(trace);
      directory = result;
    },
    damage: ({ kind, seed }) => {
      const backup = join(copies, 'backup');
      rmSync(backup, { recursive: true, force: true });
      cpSync(directory, backup, { recursive: true });
      const what = damageDirectory(directory, kind, seed);
      return {
        what,
        restore: () => {
          directory = next();
          renameSync(backup, directory);
        },
      };
    },
    deleteLocks: () => {
      for (const name of readdirSync(directory)) {
        if (name.startsWith('segment-')) rmSync(join(directory, name, 'LOCK'), { force: true });
      }
    },
    remove: () => {
      rmSync(watched, { recursive: true, force: true });
      rmSync(copies, { recursive: true, force: true });
    },
  };
}
