//! The names that rules go by: programs, verbs, and the words that make a script worth parsing. Lists of words, no logic.

use std::{collections::HashSet, sync::LazyLock};

type Words = LazyLock<HashSet<&'static str>>;

/// Tools that administer something that outlives the command.
pub(super) static ADMINISTRATIVE: Words = LazyLock::new(|| {
    "algolia ansible argocd artisan aws az azcopy b2 borg borgmatic buildah buildkite-agent bw cargo cdk cdktf ceph \
     chamber circleci cloudflared consul curator datadog-ci dnscontrol docker docker-compose doctl doppler \
     duplicity eksctl elasticdump etcdctl firebase flagsmith flarectl flux fly flyctl gcloud gem gh gitlab-runner \
     glab gluster gopass gsutil hcloud helm heroku hub ibmcloud incus infisical istioctl jenkins-cli kafka-acls \
     kafka-configs kafka-consumer-groups kafka-delete-records kafka-topics kafkactl kcat keybase kopia kops kubectl \
     kustomize launchctl launchdarkly ldcli linode-cli lxc mc meilisearch minio multipass nats neonctl nerdctl \
     netlify newrelic nixos-rebuild nomad npm oc oci op opensearch-cli ovhcloud pagerduty pass pnpm podman prisma \
     pscale pulsar-admin pulumi rabbitmqadmin rabbitmqctl rados rails railway rake rbd rclone render restic route53 \
     rpk s3cmd sam scw sentry-cli serverless sls sops split stripe supabase systemctl tailscale terraform \
     terragrunt tofu twilio typesense unleash vagrant vault velero vercel virsh wrangler yarn zkcli zookeeper-shell"
        .split_whitespace()
        .collect()
});

/// Verbs after which something is gone.
pub(super) static REMOVING: Words = LazyLock::new(|| {
    "clear del delete deletefile deregister destroy disable down drop erase flush forget nuke obliterate prune \
     purge rb remove reset revoke rm rmdir rmdirs rmi terminate uninstall unpublish unregister wipe yank"
        .split_whitespace()
        .collect()
});

/// Windows programs that an agent hardly ever needs, and that run or fetch code for whoever asks.
pub(super) static PROXIES: Words = LazyLock::new(|| {
    "agentexecutor appvlp aspnet_compiler atbroker bginfo bitsadmin cdb certoc certreq cl_invocation.ps1 \
     cl_loadassembly.ps1 cl_mutexverifiers.ps1 cmdl32 cmstp colorcpl computerdefaults configsecuritypolicy coregen \
     cscript customshellhost datasvcutil desktopimgdownldr devtoolslauncher dfsvc diantz diskshadow dnscmd \
     dumpminitool dxcap ecmangen esentutl eventvwr extexport extrac32 fodhelper forfiles fsianycpu \
     gfxdownloadwrapper gpscript ie4uinit ieexec imewdbld infdefaultinstall installutil iscsicpl launch-vsdevshell \
     ldifde makecab manage-bde.wsf mavinject mftrace microsoft.workflow.compiler mofcomp mpcmdrun msconfig msdeploy \
     msdt msedge_proxy msedgewebview2 mshta msiexec msohtmed msxsl ntdsutil odbcconf offlinescannershell \
     openconsole pcalua pcwrun pester.bat pktmon pnputil presentationhost printbrm procdump protocolhandler \
     provlaunch pubprn.vbs rasautou rdrleakdiag regasm regini register-cimprovider regsvcs regsvr32 rpcping \
     rundll32 runexehelper runonce runscripthelper scriptrunner sdclt settingsynchost slui sqldumper sqlps \
     sqltoolsps squirrel stordiag syncappvpublishingserver syncappvpublishingserver.vbs testwindowremoteagent \
     ttdinject tttracer unregmp2 utilityfunctions.ps1 verclsid visualuiaverifynative vshadow vsiisexelauncher \
     vsjitdebugger wfmformat winrm.vbs wlrmdr wmic workfolders wscript wsreset wuauclt xbap xwizard"
        .split_whitespace()
        .collect()
});

/// Windows programs that do so as well, whose names are words or everyday tools: they count with `.exe` alone.
pub(super) static ORDINARY: Words = LazyLock::new(|| {
    "adplus appcert at bash certutil cipher cmdkey conhost control createdump csc csi devinit dfshim dllhost dnx \
     dump64 excel expand explorer findstr finger fltmc fsi fsutil ftp hh ilasm jsc link mmc msaccess msbuild msedge \
     mspub netsh onedrivestandaloneupdater outlook powerpnt print psr rcsi reg regedit remote replace sc schtasks \
     scp setres ssh tar te teams tpmtool tracker update vbc visio vsls-agent wab wfc winget winproj winword write \
     wsl wt xsd"
        .split_whitespace()
        .collect()
});

/// Beginnings of words one of which every command has that some rule knows.
pub(super) static WAKING: Words = LazyLock::new(|| {
    ".aws .bat .env .exe .ps1 .vbs /dev/ /etc/ /inet/ :( :\\ add aria2c at auditctl authorized_keys awk base64 bash \
     batch bcdedit bq certutil ch chkconfig cleanup clear clickhouse cockroach cron crypt curl db dd del delete \
     deregister destroy disable disk dns doas docker down drop erase eval exec fetch find flush forget git gosu \
     gpasswd group halt hdparm hist http iex init insmod invoke ip6tables iptables jjs journalctl jrunscript kill \
     launch lua lv mdadm mk modprobe mongo move mv nc ncat net nft node nsenter nuke obliterate openssl parted \
     passwd perl php pkexec podman poweroff powershell profile prune purge pv pwsh python rb rc rd reboot redis \
     remove reset revoke rm rmdir rmmod rsync ruby run0 schtasks scp set sftp sh shadow shred shutdown socat socket \
     source sql srm ssh su sudo sysctl systemctl tclsh telnet terminate truncate ufw uninstall unlink unpublish \
     unregister unset update user valkey vg visudo vss wbadmin wevtutil wget wipe xh yank zfs zpool zsh"
        .split_whitespace()
        .collect()
});
