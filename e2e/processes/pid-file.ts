import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/*
 * A file that remembers a process, so that a later run can end what a `kill -9` left behind. It holds
 * the process id and nothing else, for `kill $(cat FILE)`. A second file beside it tells when that
 * process began: ids are used again, and a stranger who got the same one must not be touched.
 */
const beganFile = (file: string): string => `${file}.began`;

/** Writes the process into the file. Does nothing when the process is gone already. */
export function rememberProcess(file: string, pid: number): void {
  const began = beginning(pid);
  if (began === undefined) return;
  writeFileSync(beganFile(file), `${pid} ${began}\n`);
  writeFileSync(file, `${pid}\n`);
}

/** The id of the remembered process while it lives; undefined when the file or the process is gone. */
export function livingProcess(file: string): number | undefined {
  const pid = Number(read(file));
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  return read(beganFile(file)) === `${pid} ${beginning(pid)}` ? pid : undefined;
}

/** Removes what {@link rememberProcess} wrote. */
export function forgetProcess(file: string): void {
  rmSync(file, { force: true });
  rmSync(beganFile(file), { force: true });
}

/** Ends the remembered process, politely first, and removes the file. Resolves to its id if it lived. */
export async function endRemembered(file: string, graceMs = 5_000): Promise<number | undefined> {
  const pid = livingProcess(file);
  if (pid === undefined) {
    forgetProcess(file);
    return undefined;
  }
  signalProcess(pid, 'SIGTERM');
  const deadline = performance.now() + graceMs;
  while (livingProcess(file) !== undefined) {
    if (performance.now() > deadline) signalProcess(pid, 'SIGKILL');
    await delay(50);
  }
  forgetProcess(file);
  return pid;
}

/** Sends a signal; a process that is gone already is not an error. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** When a process began, in whatever form the system tells it; undefined for a dead or zombie one. */
function beginning(pid: number): string | undefined {
  if (process.platform === 'linux') return beginningFromProc(pid);
  try {
    const text = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' });
    return text.trim() || undefined;
  } catch {
    return undefined;
  }
}

function beginningFromProc(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command name, in parentheses, may itself hold spaces; state is field 3, start time field 22.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}
