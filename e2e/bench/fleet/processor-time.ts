import { readdirSync, readFileSync } from 'node:fs';

const TICKS_PER_SECOND = 100;

/** Processor time of a process and of all that it has started, those that have ended included; seconds. Linux alone knows it. */
export function processorSeconds(pid: number): number {
  const all = new Map<number, Reading>();
  for (const entry of readdirSync('/proc')) {
    const reading = /^\d+$/.test(entry) ? read(Number(entry)) : undefined;
    if (reading !== undefined) all.set(Number(entry), reading);
  }
  const ofTree = (root: number): number => {
    const own = all.get(root)?.ticks ?? 0;
    const children = [...all].filter(([, { parent }]) => parent === root);
    return children.reduce((sum, [child]) => sum + ofTree(child), own);
  };
  return ofTree(pid) / TICKS_PER_SECOND;
}

interface Reading {
  readonly parent: number;
  readonly ticks: number;
}

/** Undefined where the process has ended meanwhile. */
function read(pid: number): Reading | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // After the name, which may hold anything but a closing bracket: the 2nd is the parent; user and system time, and those of children
    // that have ended, are 12th to 15th.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return { parent: Number(fields[1]), ticks };
  } catch {
    return undefined;
  }
}
