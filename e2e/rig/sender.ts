import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** `address:port`, both in hexadecimal, as in /proc/net/tcp. Everything here runs on 127.0.0.1. */
const LOOPBACK = '0100007F';

/** Both ends of a connection as the side that accepted it sees them. */
export interface Accepted {
  readonly localPort?: number | undefined;
  readonly remotePort?: number | undefined;
}

/**
 * The process among `pids` that opened the connection. Undefined when none of them has it.
 * It reads the kernel's tables, because nothing that a process sends says reliably which process
 * sent it. Both ports are compared: the kernel gives one local port to several connections when
 * they lead to different servers.
 */
export function senderOf(accepted: Accepted, pids: readonly number[]): number | undefined {
  const inode = inodeOf(accepted);
  if (inode === undefined) return undefined;
  return pids.find((pid) => hasSocket(pid, inode));
}

/** A closed connection that had the same port stays in the table for a minute, without an inode. */
const NO_INODE = '0';
/** The kernel writes the table in pieces, so that one reading can miss a line while others change. */
const READINGS = 3;

/** The inode of the socket at the other end of the connection. */
function inodeOf(accepted: Accepted): string | undefined {
  for (let reading = 0; reading < READINGS; reading++) {
    const inode = inodeInTable(end(accepted.remotePort), end(accepted.localPort));
    if (inode !== undefined) return inode;
  }
  return undefined;
}

function end(port = 0): string {
  return `${LOOPBACK}:${port.toString(16).toUpperCase().padStart(4, '0')}`;
}

function inodeInTable(local: string, remote: string): string | undefined {
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)) {
    const fields = line.trim().split(/\s+/);
    if (fields[1] === local && fields[2] === remote && fields[9] !== NO_INODE) return fields[9];
  }
  return undefined;
}

function hasSocket(pid: number, inode: string): boolean {
  const directory = `/proc/${pid}/fd`;
  try {
    return readdirSync(directory).some((fd) => isSocket(`${directory}/${fd}`, inode));
  } catch {
    return false;
  }
}

/** A descriptor may be closed while it is read. */
function isSocket(path: string, inode: string): boolean {
  try {
    return readlinkSync(path) === `socket:[${inode}]`;
  } catch {
    return false;
  }
}
