//! The names that rules go by: programs, verbs, and the words that make a script worth parsing. Lists of words, hardly any logic.

use std::{collections::HashSet, sync::LazyLock};

type Words = LazyLock<HashSet<&'static str>>;

/// Tools that administer something that outlives the command.
pub(super) static ADMINISTRATIVE: Words = LazyLock::new(|| {
    "airflow algolia ansible ansible-galaxy argo argocd artisan atlas aws az azcopy b2 borg borgmatic bq \
     buildah buildkite-agent bw calicoctl cargo cdk cdktf ceph cf chamber cilium cinder circleci cloudflared \
     consul consul-template contentful crictl ctr curator databricks datadog-ci dbt dnscontrol docker \
     docker-compose doctl doppler duplicity dvc eb ecctl ecs-cli eksctl elasticdump equinix etcdctl exo \
     firebase flagsmith flarectl flux fly flyctl gcloud gem gh ghost gitlab-runner glab glance gluster gopass \
     gsutil hcloud helm heroku heroku-cli hetzner hub ibmcloud incus infisical influx ionosctl istioctl \
     jenkins-cli juju k3d k3s kafka-acls kafka-configs kafka-consumer-groups kafka-delete-records \
     kafka-topics kafkactl kcat keybase kind kopia kops kubeadm kubectl kustomize launchctl launchdarkly \
     ldcli linkerd linode-cli lxc mc meilisearch minikube minio mongocli multipass nats neonctl nerdctl \
     netlify neutron newrelic ngrok nixos-rebuild nomad nova npm oc oci okteto op opensearch-cli openstack \
     oras osc ovhcloud packer pagerduty pass pct pipeline pnpm podman porter prefect prisma pscale \
     pulsar-admin pulumi pveam pvesh qm rabbitmqadmin rabbitmqctl rados rails railway rake rancher rbd rclone \
     render restic route53 rpk s3cmd sam scw sentry-cli serverless sf sfdx shopify sls snowcli sops spacectl \
     split stripe supabase swift systemctl tailscale talosctl tanzu tctl temporal terraform terragrunt tkn \
     tofu triton twilio typesense unleash upctl vagrant vault vboxmanage vcluster velero vercel virsh \
     virtualbox vmrun waypoint werf wrangler yarn zkcli zli zookeeper-shell"
        .split_whitespace()
        .collect()
});

/// Options whose value is the next argument, as they stand before a subcommand: `git -C dir push`.
pub(super) static WITH_VALUE: Words = LazyLock::new(|| {
    "--profile --region --output --endpoint-url --namespace -n --context --kubeconfig --cluster --project --account \
     --configuration --subscription --kube-context --app -a --stack -s -chdir --host -H --cwd -C -c --config --server \
     --repo -R --git-dir --work-tree --filter --dir --prefix"
        .split_whitespace()
        .collect()
});

/// Verbs after which something is gone.
pub(super) static REMOVING: Words = LazyLock::new(|| {
    "clear deactivate decommission del delete delete-all deletebucket deletefile deprovision deregister \
     destroy destroy-all disable down drop drop-all erase evict expunge flush forget nuke obliterate offboard \
     prune purge rb remove removeall reset revoke rm rmdir rmdirs rmi scrap tear-down teardown terminate \
     undeploy uninstall unpublish unregister unset-all wipe wipe-all yank"
        .split_whitespace()
        .collect()
});

/// Windows programs that an agent hardly ever needs, and that run or fetch code for whoever asks.
pub(super) static PROXIES: Words = LazyLock::new(|| {
    "acccheckconsole addinutil agentexecutor appinstaller appvlp aspnet_compiler atbroker bginfo bitsadmin \
     cdb certoc certreq cl_invocation cl_invocation.ps1 cl_loadassembly cl_loadassembly.ps1 cl_mutexverifiers \
     cl_mutexverifiers.ps1 cmdl32 cmstp colorcpl computerdefaults configsecuritypolicy coregen cscript \
     customshellhost datasvcutil defaultpack desktopimgdownldr devicecredentialdeployment devtoolslauncher \
     devtunnel dfsvc diantz diskshadow dnscmd dsdbutil dtexec dtutil dumpminitool dxcap ecmangen esentutl \
     eudcedit eventvwr extexport extrac32 fodhelper forfiles fsianycpu gfxdownloadwrapper gpscript ie4uinit \
     iediagcmd ieexec imewdbld infdefaultinstall installutil intellitrace iscsicpl launch-vsdevshell \
     launch-vsdevshell.ps1 ldifde makecab manage-bde manage-bde.wsf mavinject mftrace \
     microsoft.nodejstools.pressanykey microsoft.workflow.compiler mofcomp mpcmdrun mpiexec msconfig msdeploy \
     msdt msedge_proxy msedgewebview2 mshta msiexec msohtmed mspub msxsl ngen ntdsutil ntsd nvuhda6 odbcconf \
     offlinescannershell openconsole pcalua pcwrun pester.bat pixtool pktmon pnputil presentationhost \
     printbrm procdump protocolhandler provlaunch pubprn pubprn.vbs rasautou rasdial rdrleakdiag regasm \
     regini register-cimprovider regsvcs regsvr32 rpcping rundll32 runexehelper runonce runscripthelper \
     scrcons scriptrunner sdclt settingsynchost sigverif slui sqldumper sqlps sqltoolsps squirrel stordiag \
     syncappvpublishingserver syncappvpublishingserver.vbs testwindowremoteagent tpmtool tpmvscmgr ttdinject \
     tttracer unregmp2 utilityfunctions.ps1 verclsid visualuiaverifynative vsdiagnostics vshadow \
     vsiisexelauncher vsjitdebugger vslaunchbrowser vstest.console wbemtest wfmformat winfile winrm.vbs winrs \
     wlrmdr wmic workfolders wscript wsreset wuauclt xbap xbootmgr xbootmgrsleep xwizard"
        .split_whitespace()
        .collect()
});

/// Windows programs that do so as well, whose names are words or everyday tools: they count with `.exe` alone.
pub(super) static ORDINARY: Words = LazyLock::new(|| {
    "adplus appcert at bash bitsadmin certutil change cipher cmdkey code conhost control createdump csc csi \
     devenv devinit dfshim dllhost dnx dotnet dsget dump64 excel expand explorer findstr finger fltmc fsi \
     fsutil ftp hh iexpress ilasm jsc link logger mmc mpiexec msaccess msbuild msedge mspub netsh \
     onedrivestandaloneupdater outlook powerpnt print psr query rcsi reg regedit remote replace reset sc \
     schtasks scp setres sftp ssh tar te teams tpmtool tracker update vbc visio vsls-agent wab wbadmin wfc \
     windbg winget winproj winword write wsl wt xsd"
        .split_whitespace()
        .collect()
});

/// Beginnings of words one of which every command has that some rule knows.
pub(super) static WAKING: Words = LazyLock::new(|| {
    "$* $@ ${ () .aws .bat .config/ .docker .env .exe .gnupg .kube .netrc .npmrc .pgpass .ps1 .pypirc \
     .vault-token .vbs /boot /dev/ /etc/ /inet/ /lib /proc /sys :( :\\ @echo _rsa aa- accesstokens \
     add-iam-policy-binding adduser alias apparmor aria2c artisan atob auditctl authorize awk badblocks \
     base32 base64 bash batch bcdedit branch btrfs capsh cassandra certutil chage chattr checkout chgrp \
     chkconfig chmod chown chpasswd chroot cipher clean clear clickhouse clusterrole cmdkey cockroach \
     code.exe coproc copy cordon core. cql crane create-access-key create-for-rbac credentials croc cron \
     crypt csrutil curl cypher db dd delete deluser deploy deregister destroy dig disable disk dns doas \
     docker down drain drop dscl ed25519 elasticsearch erase eval exec expect fetch filter-branch \
     filter-repo find firewall-cmd flask flush flyway forget format ftp gc get-content gh git+ github: goreleaser gosu \
     gpasswd gpg group halt hdparm hex.publish hist http icacls id_rsa iex ifconfig influx init insmod \
     install invoke ip6tables iptables isql jjs journalctl jrunscript key4.db keychain kill knex launch \
     lazagne link liquibase litecli ln login lua lv manage.py mapfile mdadm mimikatz mk modprobe mongo \
     move mycli mysqladmin nc netcat netsh new-service newusers nft nmcli node npx nsenter nslookup nuke nvme \
     obliterate openssl osascript parted passwd perl pgcli php pkexec pkill podman poweroff powershell \
     private privileged privkey procdump profile prune public-read publish purge push put-parameter \
     put-secret-value pv pwsh python rb rc rd readarray reboot redis reflog register- release: remove \
     replace replicas reset restart-computer restore revoke rimraf rm role rollback rsync ruby run0 runas \
     runuser scale schedule schtasks scp scrap screen scw secret security sed semantic-release \
     service-account serviceaccount set-mppreference setcap setenforce setfacl setuid setx sftp shadow \
     shell shopify shred shutdown skopeo snapcraft snapper socat socket source spctl sql srm ssh \
     start-process stash stop sudo surreal swapoff switch sysctl sysrq systemctl systemd-run tag taint \
     takeown tclsh tee telinit telnet terminate timeshift tmutil tmux transfer truncate ufw uninstall \
     unlink unpublish unregister unset update upload user valkey vaultcmd vg vim vipw visudo vss \
     wallet.dat wbadmin wevtutil wget wipe worktree wormhole wrangler write-output wsl xargs xh xxd yank \
     zfs zpool zsh"
        .split_whitespace()
        .collect()
});

/// Whole words of the same kind: as beginnings they would be those of `script`, `target`, `summary`.
pub(super) static WAKING_WHOLE: Words =
    LazyLock::new(|| "add at cp del mv net pub reg sc set sh su tar".split_whitespace().collect());
