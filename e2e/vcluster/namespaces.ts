import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/**
 * A command that runs another one in namespaces of its own, no sooner than what measures has had its turn, and takes it
 * along when its caller dies.
 */
export const ALONE = [
  'nice',
  '-n',
  '15',
  'setpriv',
  '--pdeathsig=KILL',
  'unshare',
  '--mount',
  '--pid',
  '--net',
  '--fork',
  '--kill-child',
] as const;

/** Rejects, saying what is missing, where a vCluster cannot have namespaces of its own. */
export async function requireNamespaces(): Promise<void> {
  if (process.platform !== 'linux') {
    throw new Error(`vcluster: namespaces are Linux's: "${process.platform}"; run it on Linux`);
  }
  const uid = process.getuid?.();
  if (uid !== 0) {
    throw new Error(
      `vcluster: mount, PID and network namespaces need root: user id "${uid}"; use sudo`,
    );
  }
  const command = 'ip link set lo up && mount -t tmpfs none /mnt && command -v chroot';
  try {
    await promisify(execFile)(ALONE[0], [...ALONE.slice(1), 'sh', '-euc', command]);
  } catch (error) {
    const reason = error instanceof Error ? error.message.trim() : String(error);
    throw new Error(
      `vcluster: this kernel or container gives no namespaces: "${reason}"; it takes CAP_SYS_ADMIN ` +
        'and CAP_NET_ADMIN, and the commands nice, setpriv, unshare, ip, mount and chroot',
      { cause: error },
    );
  }
}
